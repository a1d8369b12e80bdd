"""FedProx against a loop from its paper."""

from __future__ import annotations

from pathlib import Path

from tests.algorithms.loops import RATE, STEPS, Loop, Weights, against

MU = 0.7


def test_fedprox_is_what_its_paper_says(tmp_path: Path) -> None:
    """h_k(w; w^t) = F_k(w) + mu / 2 ||w - w^t||^2 (Eq. 2), by plain SGD."""

    def loop(given: Loop) -> Weights:
        w = given.weights
        for chosen in given.rounds:
            sent = {}
            for k in chosen:
                own = w
                for _ in range(STEPS):
                    slope = given.slope(own, k)
                    own = {n: own[n] - RATE * (slope[n] + MU * (own[n] - w[n])) for n in own}
                sent[k] = own
            w = given.mean(sent)
        return w

    against(loop, {"name": "fedprox", "mu": MU}, tmp_path)
