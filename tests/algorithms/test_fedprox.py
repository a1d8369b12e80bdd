"""FedProx's proximal term, as in its Eq. 2."""

from types import SimpleNamespace

import torch

from simfl.algorithms.fedprox import FedProx


def test_the_proximal_term_is_half_mu_times_the_squared_distance_of_trained_tensors():
    """F + (mu / 2) ||w - w^t||^2 per job: mu 0.5, distances 5 and 1, and a frozen tensor moved."""
    trained = torch.tensor([[[1.0, 2.0]], [[0.0, 1.0]]], requires_grad=True)
    parameters = {"weight": trained, "frozen": torch.full((2, 1), 9.0)}
    batch = SimpleNamespace(
        inputs=None,
        start={"weight": torch.zeros(2, 1, 2), "frozen": torch.zeros(2, 1)},
        forward=lambda parameters, inputs: None,
        mean_loss=lambda outputs: torch.tensor([10.0, 20.0]),
    )

    losses = FedProx(mu=0.5).loss(parameters, batch)

    assert losses.tolist() == [10.0 + 0.25 * 5.0, 20.0 + 0.25 * 1.0]
