"""pFedMe against a loop from its paper."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfl.algorithms.pfedme import PFedMe
from simfl.learning.job import LocalTraining
from tests.algorithms.loops import CLIENTS, RATE, STEPS, Loop, Weights, against, paid, scenario
from tests.small import largest_difference, simulated

LAMBDA, K, INNER, BETA = 4.0, 3, 0.1, 1.5
PART = {
    "name": "pfedme",
    "closeness": LAMBDA,
    "personal_steps": K,
    "personal_rate": INNER,
    "beta": BETA,
}


def loop(given: Loop) -> tuple[Weights, dict[int, Weights]]:
    """Algorithm 1; the last theta~ of every client beside the weights."""
    w, personal = given.weights, {}
    for chosen in given.rounds:
        sent = []
        for i in chosen:
            own = w
            for _ in range(STEPS):
                theta = own
                for _ in range(K):
                    slope = given.slope(theta, i)
                    theta = {
                        n: theta[n] - INNER * (slope[n] + LAMBDA * (theta[n] - own[n])) for n in own
                    }
                own = {n: own[n] - RATE * LAMBDA * (own[n] - theta[n]) for n in own}
            personal[i] = theta
            sent.append(own)
        mean = {n: sum(one[n] for one in sent) / len(sent) for n in w}
        w = {n: (1 - BETA) * w[n] + BETA * mean[n] for n in w}
    return w, personal


def test_pfedme_is_what_its_paper_says(tmp_path: Path) -> None:
    """The weights, every client's personal model (which it is served), and the cost of K passes."""
    run, (_, personal) = against(loop, PART, tmp_path / "me")

    assert run.publications.latest is not None
    state = run.publications.latest.value()
    for client in range(CLIENTS):
        job = run.values.last_job(client, float("inf"))
        assert (job is None) == (client not in personal)
        if job is not None:
            [served] = run.values.algorithm.served(state, client, job.memory())
            assert largest_difference(served, personal[client]) < 1e-9
    simulated(scenario({"name": "fedavg"}), tmp_path / "avg")
    after, before = paid(tmp_path / "me"), paid(tmp_path / "avg")
    assert after["cycles"] == pytest.approx(K * before["cycles"])
    assert (after["download"], after["upload"]) == (before["download"], before["upload"])


@pytest.mark.parametrize(
    ("local", "said"),
    [
        (LocalTraining(optimizer="adam"), "plain steps towards theta"),
        (LocalTraining(learning_rate_decay=0.9), "one for all; accepted: 1"),
    ],
)
def test_what_would_change_its_steps_is_refused(local: LocalTraining, said: str) -> None:
    """With what is accepted."""
    with pytest.raises(ValueError, match=said):
        PFedMe(local)
