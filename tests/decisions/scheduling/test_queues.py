"""Virtual queues and the schedules made of them, against the recursion done by hand."""

import numpy as np
import pytest

from simfl.decisions.scheduling.fair import Fair
from simfl.decisions.scheduling.fedcure import FedCure
from simfl.decisions.scheduling.greedy import Greedy
from simfl.decisions.scheduling.random import Random
from simfl.decisions.scheduling.round_robin import RoundRobin
from simfl.decisions.virtual_queue import advanced
from tests.decisions.views import edge_view


def picks(rule, rounds, latency_s=(1.0, 2.0, 4.0)):
    """What a rule picks in rounds 1, 2, ... when all edge servers are idle, with its details."""
    memory, last, chosen, details = rule.initial(), np.zeros(len(latency_s), dtype=int), [], []
    for number in range(1, rounds + 1):
        view = edge_view(latency_s, round=number, last_dispatch_round=last.copy())
        memory, edge, detail = rule.decide(memory, view, np.random.default_rng(number))
        last[edge] = number
        chosen.append(edge + 1)
        details.append(detail)
    return chosen, details


def test_the_queue_recursion():
    """The card's anchor: delta .3 each, picks 1, 1, 2, 3, 1."""
    expected = [
        [0.0, 0.0, 0.0],
        [0.0, 0.3, 0.3],
        [0.0, 0.6, 0.6],
        [0.3, 0.0, 0.9],
        [0.6, 0.3, 0.2],
        [0.0, 0.6, 0.5],
    ]
    queues, last = None, np.zeros(3, dtype=int)

    for number, (lengths, edge) in enumerate(zip(expected, (0, 0, 1, 2, 0, 0), strict=True), 1):
        view = edge_view((1.0, 1.0, 1.0), round=number, last_dispatch_round=last.copy())
        queues = advanced(queues, view, 0.9)
        last[edge] = number
        np.testing.assert_allclose(queues, lengths, atol=1e-12)


def test_edge_servers_in_flight_are_owed_their_share_too():
    """Queues grow for those that are not idle."""
    view = edge_view(
        (1.0, 1.0), round=5, idle=np.array([True, False]), last_dispatch_round=np.array([3, 2])
    )

    assert advanced(np.array([0.1, 0.2]), view, 0.5).tolist() == pytest.approx([0.35, 0.45])


def test_fedcures_picks():
    """The card's anchor: T = (1, 2, 4), I = 4, beta .5, delta .3 each."""
    chosen, details = picks(FedCure(beta=0.5, participation=0.9), 10)

    assert chosen == [1, 2, 1, 3, 2, 1, 3, 2, 1, 3]
    assert details[1]["scores"] == pytest.approx([0.375, 0.55, 0.3])
    assert details[1]["normaliser_s"] == 4.0
    assert details[1]["queues"] == pytest.approx([0.0, 0.3, 0.3])


def test_the_normaliser_is_the_running_mean_of_the_longest_estimate():
    """I(2) is the mean of 4 and 8 seconds."""
    rule = FedCure()
    memory = rule.initial()
    for number, latency_s in ((1, (1.0, 4.0)), (2, (8.0, 3.0))):
        memory, _, detail = rule.decide(
            memory, edge_view(latency_s, round=number), np.random.default_rng(0)
        )

    assert detail["normaliser_s"] == 6.0


def test_fair_is_fedcure_without_beta():
    """The baselines Fair and FedFair."""
    fair, _ = picks(Fair(participation=0.7), 50)
    fedcure, _ = picks(FedCure(beta=0.0, participation=0.7), 50)

    assert fair == fedcure


@pytest.mark.parametrize("participation", [0.3, 0.8, 1.0])
def test_fair_over_equal_shares_is_round_robin(participation):
    """Ties go to the least recently dispatched, whatever sums of shares round to."""
    fair, _ = picks(Fair(participation=participation), 60, (1.0, 1.1, 1.3, 1.6, 2.5))
    in_turn, _ = picks(RoundRobin(), 60, (1.0, 1.1, 1.3, 1.6, 2.5))

    assert fair == in_turn


def test_a_large_beta_is_greedy_until_the_queues_outgrow_it():
    """The fastest first; after so many rounds the others' queues weigh more than speed."""
    chosen, _ = picks(FedCure(beta=10.0, participation=0.9), 200)

    # edge server 2 is 10 * (2 - 1) / 4 = 2.5 behind, and owed 0.3 more in each round
    assert chosen[:9] == [1] * 9
    assert chosen[9] == 2
    assert set(chosen) == {1, 2, 3}


def test_greedy_always_takes_the_fastest():
    """With all idle the others starve."""
    assert set(picks(Greedy(), 20)[0]) == {1}


@pytest.mark.parametrize("rule", [Greedy(), Fair(), FedCure(), RoundRobin()])
def test_ties_go_to_the_least_recently_dispatched_then_the_lowest(rule):
    """With equal latencies every rule takes turns, starting with the lowest number."""
    assert picks(rule, 6, (2.0, 2.0, 2.0))[0] == [1, 2, 3, 1, 2, 3]


@pytest.mark.parametrize("rule", [Greedy(), Fair(), FedCure(), RoundRobin(), Random()])
def test_only_idle_edge_servers_are_picked(rule):
    """The best one does not count while it is in flight."""
    idle = np.array([False, True, False, True])
    view = edge_view((1.0, 2.0, 3.0, 4.0), round=9, idle=idle)

    _, edge, _ = rule.decide(rule.initial(), view, np.random.default_rng(0))

    assert idle[edge]


@pytest.mark.parametrize("rule", [Greedy(), Fair(), FedCure()])
def test_nothing_observed_is_no_obstacle(rule):
    """Without any estimate the least recently dispatched is picked."""
    view = edge_view((np.nan, np.nan), round=3, last_dispatch_round=np.array([2, 1]))

    _, edge, _ = rule.decide(rule.initial(), view, np.random.default_rng(0))

    assert edge == 1
