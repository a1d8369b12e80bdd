"""The card's discrete simulation: five edge servers of different speed, few in flight."""

from dataclasses import dataclass

import numpy as np
import pytest

from simfl.decisions.estimation.nig import NormalInverseGamma
from simfl.decisions.latencies import Latencies
from simfl.decisions.scheduling.fair import Fair
from simfl.decisions.scheduling.fedcure import FedCure
from simfl.decisions.scheduling.greedy import Greedy
from tests.decisions.views import edge_view

LATENCY_S = np.array([1.0, 1.1, 1.3, 1.6, 2.5])
ROUNDS = 2000


@dataclass(frozen=True)
class Outcome:
    """What came of a schedule: picks, their latencies in seconds, queue lengths per round."""

    picks: np.ndarray
    latency_s: np.ndarray
    queues: np.ndarray

    @property
    def shares(self):
        """Share of the dispatches per edge server."""
        return np.bincount(self.picks, minlength=LATENCY_S.size) / self.picks.size


def simulated(rule, concurrency, participation=0.8):
    """2,000 rounds with 2 % latency noise; queues as Fair would keep them."""
    edges = LATENCY_S.size
    noise = np.random.default_rng(5).lognormal(0.0, 0.02, (ROUNDS + 1, edges))
    latencies = Latencies(NormalInverseGamma(), edges)
    lasts = np.zeros(edges, dtype=np.int64)
    started = np.zeros(edges)
    returns = LATENCY_S * noise[0]
    memory, queue, which = rule.initial(), np.zeros(edges), np.arange(edges)
    picks, spent, queues = [], [], []
    for number in range(1, ROUNDS + 1):
        while np.isfinite(returns).sum() >= concurrency:
            edge = int(returns.argmin())
            now_s = returns[edge]
            latencies.observe(np.array([edge]), now_s - started[edge], LATENCY_S[edge])
            returns[edge] = np.inf
        view = edge_view(
            latencies.estimate_s(which, np.full(edges, latencies.mean_s)),
            round=number,
            idle=np.isinf(returns),
            last_dispatch_round=lasts.copy(),
        )
        served = lasts == number - 1
        queue = np.maximum(queue + participation / edges - served, 0.0)
        queues.append(queue)
        memory, edge, _ = rule.decide(memory, view, np.random.default_rng(0))
        lasts[edge], started[edge] = number, now_s
        returns[edge] = now_s + LATENCY_S[edge] * noise[number, edge]
        picks.append(edge)
        spent.append(returns[edge] - now_s)
    return Outcome(np.array(picks), np.array(spent), np.array(queues))


def test_greedy_starves_the_slow():
    """It alternates between the two fastest, and the others' queues grow linearly."""
    outcome = simulated(Greedy(), 2)

    assert outcome.shares == pytest.approx([0.52, 0.48, 0, 0, 0], abs=0.01)
    halfway, end = outcome.queues[ROUNDS // 2 - 1], outcome.queues[-1]
    assert end[2:] == pytest.approx([0.16 * ROUNDS] * 3, rel=0.01)
    assert end[2:] == pytest.approx(2 * halfway[2:], rel=0.01)


def test_fair_gives_everybody_the_same():
    """Equal shares, at the price of the latencies' whole spread (COV .36)."""
    outcome = simulated(Fair(), 2)

    assert outcome.shares == pytest.approx([0.2] * 5, abs=0.002)
    assert outcome.latency_s.std() / outcome.latency_s.mean() == pytest.approx(0.36, abs=0.01)


def test_fedcure_keeps_the_queues_short_and_the_slow_at_their_least_share():
    """Shares .208 four times and .166, none below delta = .16; the longest queue stays below 1."""
    outcome = simulated(FedCure(beta=0.5, participation=0.8), 2)

    assert outcome.shares == pytest.approx([0.208] * 4 + [0.166], abs=0.005)
    assert (outcome.shares >= 0.16).all()
    assert outcome.queues.max() < 1
    assert outcome.queues[ROUNDS // 2 :].max() <= outcome.queues[: ROUNDS // 2].max() + 0.05


def test_with_all_in_flight_every_rule_is_the_same():
    """C = M leaves one idle edge server at a time, so that speed alone decides (the card's A1)."""
    outcomes = [simulated(rule, 5) for rule in (Greedy(), Fair(), FedCure())]

    for outcome in outcomes:
        np.testing.assert_array_equal(outcome.picks, outcomes[0].picks)
    assert outcomes[0].shares == pytest.approx([0.27, 0.246, 0.208, 0.169, 0.108], abs=0.003)
    slow = outcomes[0].queues[:, 4]
    assert slow[999] == pytest.approx(52, abs=2)
    assert slow[1999] == pytest.approx(104, abs=3)


def test_a_larger_beta_means_longer_queues_that_stay_bounded():
    """Plateaus of about .64, .64, 1, 6 and 30 rounds; Lambda(t) / t goes to 0 (Theorem 2)."""
    plateaus = []
    for beta in (0.1, 0.5, 2.0, 10.0, 50.0):
        longest = simulated(FedCure(beta=beta, participation=0.8), 2).queues.max(axis=1)
        plateaus.append(np.median(longest[ROUNDS // 2 :]))
        assert longest[-1] / ROUNDS < 0.02

    assert plateaus == pytest.approx([0.64, 0.64, 1.0, 6.0, 30.0], rel=0.25)
    assert plateaus == sorted(plateaus)
