"""FedOpt's four server optimizers against loops from their papers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from simfl.algorithms.fedopt import FedOpt
from simfl.assembly.assemble import assemble
from simfl.scenario.yaml_source.error import ScenarioError
from tests.algorithms.loops import Loop, Weights, against, scenario
from tests.algorithms.made import state_at, update_of
from tests.small import simulated

ETA, BETA_1, BETA_2, TAU = 0.05, 0.8, 0.9, 0.01
OPTIMIZERS = ("momentum", "adagrad", "adam", "yogi")


def stepped(name: str, x: Weights, m: Weights, v: Weights, delta: Weights) -> None:
    """One step of the server, in place: Algorithm 2's lines, and FedAvgM's."""
    for n in x:
        if name == "momentum":
            m[n] = BETA_1 * m[n] + delta[n]
            x[n] = x[n] + ETA * m[n]
            continue
        m[n] = BETA_1 * m[n] + (1 - BETA_1) * delta[n]
        square = delta[n] ** 2
        if name == "adagrad":
            v[n] = v[n] + square
        elif name == "yogi":
            v[n] = v[n] - (1 - BETA_2) * square * torch.sign(v[n] - square)
        else:
            v[n] = BETA_2 * v[n] + (1 - BETA_2) * square
        x[n] = x[n] + ETA * m[n] / (torch.sqrt(v[n]) + TAU)


@pytest.mark.grid(3)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fedopt_is_what_its_papers_say(name: str, tmp_path: Path) -> None:
    """Delta_t is the mean by data size of the clients' changes; v begins as tau^2."""

    def loop(given: Loop) -> Weights:
        x = dict(given.weights)
        m = {n: torch.zeros_like(one) for n, one in x.items()}
        v = {n: torch.full_like(one, TAU**2) for n, one in x.items()}
        for chosen in given.rounds:
            mean = given.mean({i: given.trained(x, i) for i in chosen})
            stepped(name, x, m, v, {n: mean[n] - x[n] for n in x})
        return x

    part = {"name": "fedopt", "server_optimizer": name, "server_learning_rate": ETA}
    against(loop, {**part, "beta_1": BETA_1, "beta_2": BETA_2, "tau": TAU}, tmp_path)


def test_first_moments_have_their_paper_s_share() -> None:
    """Left open, beta_1 is 0.9, and 0 with adagrad: after a change of 1, m is 0.1 of it, or all."""
    for name, expected in (("adam", 0.1), ("yogi", 0.1), ("adagrad", 1.0), ("momentum", 1.0)):
        state = state_at([0.0, 0.0])
        zero = {"weight": torch.zeros(2, dtype=torch.float64)}
        state = state.__class__(state.weights, memory={"moments": (zero, zero)})
        one = FedOpt(server_optimizer=name)  # type: ignore[arg-type]
        after = one.aggregate(state, [update_of(state, 0, [1.0, 0.0], 1.0)], None)  # type: ignore[arg-type]
        assert after.memory["moments"][0]["weight"].tolist() == pytest.approx([expected, 0.0])


def test_moments_are_mixed_with_the_weights() -> None:
    """Asynchronously, one update at a time: they move on, and do not stay as they began."""
    _, run = simulated(scenario({"name": "fedopt"}, protocol="asynchronous", decisions={}))

    assert run.publications.latest is not None
    m, v = run.publications.latest.value().memory["moments"]
    assert all(bool(one.any()) for one in m.values())
    assert all(bool((one != 1e-6).any()) for one in v.values())


def test_the_papers_names_are_understood() -> None:
    """An unknown name is told how it is written here."""
    meant = r"did you mean \{name: fedopt, server_optimizer: yogi\}\?"
    with pytest.raises(ScenarioError, match=meant):
        assemble(scenario({"name": "fedyogi"}))


def test_keys_that_an_optimizer_has_no_use_for_are_told() -> None:
    """beta_2 and tau of momentum, beta_2 of adagrad."""
    assert set(FedOpt(server_optimizer="momentum").idle_keys) >= {"beta_2", "tau"}
    assert "beta_2" in FedOpt(server_optimizer="adagrad").idle_keys
    assert not {"beta_2", "tau"} & set(FedOpt(server_optimizer="yogi").idle_keys)
