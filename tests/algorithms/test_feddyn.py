"""FedDyn against a loop from its paper."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from simfl.assembly.assemble import assemble
from simfl.scenario.yaml_source.error import ScenarioError
from tests.algorithms.loops import CLIENTS, RATE, STEPS, Loop, Weights, against, scenario
from tests.small import largest_difference

ALPHA = 0.3


def loop(given: Loop) -> tuple[Weights, dict[int, Weights], Weights]:
    """Algorithm 1; the clients' gradients and h beside the weights."""
    theta = given.weights
    zero = {n: torch.zeros_like(one) for n, one in theta.items()}
    h, grad = zero, dict.fromkeys(range(CLIENTS), zero)
    for chosen in given.rounds:
        sent = {}
        for k in chosen:
            own = theta
            for _ in range(STEPS):
                slope = given.slope(own, k)
                own = {
                    n: own[n] - RATE * (slope[n] - grad[k][n] + ALPHA * (own[n] - theta[n]))
                    for n in own
                }
            grad[k] = {n: grad[k][n] - ALPHA * (own[n] - theta[n]) for n in own}
            sent[k] = own
        h = {n: h[n] - ALPHA / CLIENTS * sum(one[n] - theta[n] for one in sent.values()) for n in h}
        theta = {n: sum(one[n] for one in sent.values()) / len(sent) - h[n] / ALPHA for n in h}
    return theta, grad, h


def test_feddyn_is_what_its_paper_says(tmp_path: Path) -> None:
    """The weights, h and every client's gradient."""
    run, (_, grad, h) = against(loop, {"name": "feddyn", "alpha": ALPHA}, tmp_path)

    assert run.publications.latest is not None
    memory = run.publications.latest.value().memory
    assert largest_difference(memory["h"], h) < 1e-9
    for client in range(CLIENTS):
        assert largest_difference(memory["gradients"][client], grad[client]) < 1e-9


@pytest.mark.parametrize(
    ("protocol", "said"),
    [
        ("hierarchical", "the state h belongs to a single server"),
        ("buffered", "their own round's model"),
    ],
)
def test_protocols_that_its_mathematics_does_not_allow_are_refused(
    protocol: str, said: str
) -> None:
    """Before the run, with the reason."""
    with pytest.raises(ScenarioError, match=said):
        assemble(scenario({"name": "feddyn"}, protocol=protocol))
