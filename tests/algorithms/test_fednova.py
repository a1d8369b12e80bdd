"""FedNova against a loop from its paper."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from simfl.algorithms.fednova import FedNova, norm_of_a
from simfl.learning.job import LocalTraining
from tests.algorithms.loops import RATE, Loop, Weights, against, leaves, paid, scenario
from tests.algorithms.made import state_at, update_of
from tests.small import final_weights, largest_difference, simulated

BATCHES = {"epochs": 2, "batch_size": 8, "learning_rate": RATE, "momentum": 0.5}


def test_fednova_is_what_its_paper_says(tmp_path: Path) -> None:
    """Local momentum and unlike numbers of steps: a_i = (1 - rho^tau, ..., 1 - rho) / (1 - rho)."""
    numbers = set()

    def loop(given: Loop) -> Weights:
        x = given.weights
        for version, chosen in enumerate(given.rounds):
            n = sum(given.size(i) for i in chosen)
            d, norms = {}, {}
            for i in chosen:
                y, velocity, G = x, {name: torch.zeros_like(x[name]) for name in x}, []
                for rows in given.drawn[version, i]:
                    G.append(given.slope(y, i, rows))
                    velocity = {name: 0.5 * velocity[name] + G[-1][name] for name in x}
                    y = {name: y[name] - RATE * velocity[name] for name in x}
                tau = len(G)
                numbers.add(tau)
                a = [(1 - 0.5 ** (tau - k)) / (1 - 0.5) for k in range(tau)]
                norms[i] = sum(a)
                d[i] = {
                    name: sum(a_k * g[name] for a_k, g in zip(a, G, strict=True)) / norms[i]
                    for name in x
                }
            p = {i: given.size(i) / n for i in chosen}
            tau_eff = sum(p[i] * norms[i] for i in chosen)
            x = {k: x[k] - tau_eff * sum(p[i] * RATE * d[i][k] for i in chosen) for k in x}
        return x

    against(loop, {"name": "fednova", "local": BATCHES}, tmp_path)

    assert len(numbers) > 1


def test_with_a_proximal_term_the_server_takes_so_many_steps_as_were_made() -> None:
    """a_i = ((1 - alpha)^(tau - 1), ..., 1), alpha = eta mu, and tau_eff = sum p_i tau_i."""
    state, eta, mu = state_at([0.0, 0.0]), 0.1, 0.5
    alpha = eta * mu
    updates = [
        update_of(state, 0, [1.0, 0.0], 1.0, examples=30, learning_rate=eta, steps=2),
        update_of(state, 1, [0.0, 4.0], 1.0, examples=10, learning_rate=eta, steps=3),
    ]

    after = FedNova(mu=mu).aggregate(state, updates, None)  # type: ignore[arg-type]

    norms = [(1 - alpha) + 1, (1 - alpha) ** 2 + (1 - alpha) + 1]
    tau_eff = 0.75 * 2 + 0.25 * 3
    expected = [tau_eff * 0.75 / norms[0], tau_eff * 0.25 * 4 / norms[1]]
    assert after.weights["weight"].tolist() == pytest.approx(expected, rel=1e-12)


def test_what_a_gradient_counts_follows_the_optimizer() -> None:
    """Momentum and proximal term together: a loop of SGD over gradients of 1."""
    w = {"w": torch.zeros(1, dtype=torch.float64)}
    start, velocity = w, torch.zeros(1, dtype=torch.float64)
    for _ in range(7):
        w = leaves(w)
        velocity = 0.6 * velocity + 1.0 + 0.3 * (w["w"] - start["w"])
        w = {"w": (w["w"] - 0.2 * velocity).detach()}

    assert norm_of_a(7, 0.6, 0.2 * 0.3) == pytest.approx(float(-w["w"]) / 0.2, rel=1e-12)
    assert norm_of_a(7, 0.0, 0.0) == 7.0


def test_alike_clients_make_it_fedavg(tmp_path: Path) -> None:
    """Equal numbers of steps; one number more goes up."""
    _, plain = simulated(scenario({"name": "fedavg"}), tmp_path / "fedavg")
    simulation, nova = simulated(scenario({"name": "fednova"}), tmp_path / "fednova")

    assert largest_difference(final_weights(plain), final_weights(nova)) < 1e-12
    before, after = paid(tmp_path / "fedavg"), paid(tmp_path / "fednova")
    size = simulation.network.size_bytes
    assert after["upload"] / before["upload"] == pytest.approx(1 + 4 / size)
    assert (after["download"], after["cycles"]) == (before["download"], before["cycles"])


@pytest.mark.parametrize(
    ("local", "said"),
    [
        (LocalTraining(optimizer="adam"), "accepted: sgd"),
        (LocalTraining(momentum=0.9, keep_optimizer=True), "gradients of one round"),
    ],
)
def test_optimizers_whose_gradients_cannot_be_counted_are_refused(
    local: LocalTraining, said: str
) -> None:
    """With the key and what is accepted."""
    with pytest.raises(ValueError, match=said):
        FedNova(local)


def test_a_proximal_term_that_takes_back_more_than_all_is_refused() -> None:
    """a_i would have entries below 0: with eta mu = 2 and 4 steps they summed up to nothing."""
    local = LocalTraining(steps=4, learning_rate=0.1)
    with pytest.raises(ValueError, match=r"mu: found 20, .* at most 1 / local.learning_rate, 10"):
        FedNova(local, mu=20.0)

    assert FedNova(local, mu=10.0).mu == 10.0
