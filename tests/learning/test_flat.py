"""Losses over flat vectors: the model's own, with derivatives that finite differences confirm."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from simfl.learning.datasets.base import Examples
from simfl.learning.evaluate import mean_loss
from simfl.learning.federation import Federation
from simfl.learning.flat import FlatLosses
from simfl.learning.network import Network
from simfl.learning.objective import Objective
from tests.learning.training import network, shards


def flat(model: str) -> FlatLosses:
    """Agents with the shards of the trainers' tests, one of them longer than an evaluation pass."""
    net = network(model)
    return FlatLosses(net, net.initial(3), shards((3, 40, 1500)))


@pytest.mark.parametrize("model", ["linear", "mlp", "bn_cnn"])
def test_losses_are_the_models(model):
    """Mean losses in evaluation mode, and each example's; the flat vector is the model."""
    net, losses = network(model), flat(model)
    start = net.initial(3)

    expected = [
        mean_loss(net, start, one.cast(torch.float64, "cpu")) for one in shards((3, 40, 1500))
    ]

    assert losses.losses(losses.theta) == pytest.approx(expected, rel=1e-12)
    assert [len(one) for one in losses.per_example(losses.theta)] == losses.sizes
    again = losses.parameters(losses.theta)
    assert all(torch.equal(again[name], start[name]) for name in start)


@pytest.mark.parametrize("model", ["linear", "mlp", "bn_cnn"])
def test_gradients_agree_with_finite_differences(model):
    """For every agent along a random direction; counts weight the examples."""
    losses, rng = flat(model), np.random.default_rng(0)
    direction = rng.standard_normal(losses.theta.size)
    step = 1e-6 * direction
    counts = [rng.integers(0, 3, size) for size in losses.sizes]

    values, gradients = losses.with_gradients(losses.theta)
    weighted, slopes = losses.with_gradients(losses.theta, counts)

    ahead, behind = losses.losses(losses.theta + step), losses.losses(losses.theta - step)
    assert values == pytest.approx(losses.losses(losses.theta), rel=1e-12)
    assert gradients @ direction == pytest.approx((ahead - behind) / 2e-6, rel=1e-5, abs=1e-8)
    per_example = losses.per_example(losses.theta)
    expected = [(c * own).sum() / c.sum() for c, own in zip(counts, per_example, strict=True)]
    assert weighted == pytest.approx(expected, rel=1e-12)
    assert not np.allclose(slopes, gradients)
    shares = np.array([0.5, 0.0, 2.0])
    value, slope = losses.weighted(losses.theta, shares)
    assert value == pytest.approx(shares @ values, rel=1e-12)
    assert slope == pytest.approx(shares @ gradients, rel=1e-9, abs=1e-12)


def test_the_curvature_of_a_linear_regression_is_exact():
    """Power iteration finds the largest eigenvalue of 2 X^T X / n, bias column included."""
    net = Network(lambda: nn.Linear(3, 1), (3,), Objective("regression"), torch.float64)
    generator = torch.Generator().manual_seed(0)
    data = [Examples(torch.randn(50, 3, generator=generator), torch.zeros(50, 1)) for _ in range(2)]
    losses = FlatLosses(net, net.initial(0), data)
    direction = np.random.default_rng(0).standard_normal(4)

    for agent, one in enumerate(data):
        design = np.hstack([one.inputs.double().numpy(), np.ones((50, 1))])
        largest = np.linalg.eigvalsh(2 * design.T @ design / 50).max()
        found = losses.curvature(losses.theta, agent, direction, iterations=200)
        assert found == pytest.approx(largest, rel=1e-6)


def test_the_curvature_of_a_network_is_that_of_its_hessian():
    """Against torch's full Hessian of a perceptron with smooth activations."""
    net = network("mlp")
    data = shards((30,))
    losses = FlatLosses(net, net.initial(3), data)
    examples = data[0].cast(torch.float64)

    def loss(theta: torch.Tensor) -> torch.Tensor:
        names, start = net.parameter_names, net.initial(3)
        sizes = [start[name].numel() for name in names]
        pieces = zip(names, torch.split(theta, sizes), strict=True)
        model = {name: piece.view_as(start[name]) for name, piece in pieces}
        outputs = net.call(model, examples.inputs, training=False)[0]
        return net.objective.per_example(outputs, examples.targets).mean()

    hessian = torch.autograd.functional.hessian(loss, torch.from_numpy(losses.theta))
    largest = np.abs(np.linalg.eigvalsh(hessian.numpy())).max()
    direction = np.random.default_rng(1).standard_normal(losses.theta.size)

    found = losses.curvature(losses.theta, 0, direction, iterations=100)

    assert found == pytest.approx(largest, rel=1e-3)


def test_a_federation_is_looked_at_in_double_precision():
    """float32 weights are widened, not changed; the given precision stays without `exact`."""
    net = network("linear", torch.float32)
    federation = Federation(net, net.initial(3), shards((5,)), shards((7,)))

    exact, plain = federation.losses(exact=True), federation.losses(of_tests=True)

    assert exact.network.dtype == torch.float64 and plain.network.dtype == torch.float32
    assert np.array_equal(exact.theta, plain.theta)
    assert (exact.sizes, plain.sizes) == ([5], [7])


@pytest.mark.parametrize(
    ("module", "affine"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), True),
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 4), nn.Linear(4, 3)), False),
        (nn.Sequential(nn.Flatten(), nn.ReLU(), nn.Linear(64, 3)), False),
    ],
)
def test_a_model_knows_whether_it_is_one_affine_map(module, affine):
    """Only then are its losses convex in the parameters: a product of two matrices is not."""
    net = Network(lambda: module, (1, 8, 8), Objective("classification"))

    assert net.affine is affine


@pytest.mark.parametrize("shares", [[1.0, 1.0, 1.0], [0.0, 0.2, 5.0]])
def test_the_conditioner_decorrelates_an_affine_models_inputs(shares):
    """A is symmetric and turns the mean of x x^T, a constant 1 with it, into the identity."""
    rng = np.random.default_rng(0)
    scale = 10.0 ** torch.arange(-2, 3)
    agents = [
        Examples(scale * torch.from_numpy(rng.standard_normal((40, 5))), torch.zeros(40).long())
        for _ in range(3)
    ]
    net = Network(lambda: nn.Linear(5, 3), (5,), Objective("classification"), torch.float64)
    losses = FlatLosses(net, net.initial(0), agents)
    weights = np.array(shares) / sum(shares)
    rows = [np.hstack([one.inputs.numpy(), np.ones((40, 1))]) for one in agents]
    moments = sum(w * x.T @ x / 40 for w, x in zip(weights, rows, strict=True))

    condition = losses.conditioner(np.array(shares))

    matrix = np.stack([condition(unit) for unit in np.eye(losses.theta.size)])
    order = [0, 1, 2, 3, 4, 15]  # the weights and the bias of the first output
    root = matrix[np.ix_(order, order)]
    assert matrix == pytest.approx(matrix.T, abs=1e-12)
    assert root @ moments @ root == pytest.approx(np.eye(6), abs=0.02)


def test_other_models_have_no_conditioner():
    """A network's curvature is not that of its inputs."""
    losses = flat("mlp")

    assert losses.conditioner(np.ones(3))(losses.theta) is losses.theta
