"""Selections of clients under flat protocols."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from simfl.decisions.base import QueryingSelection
from simfl.decisions.selection.by_size import BySize
from simfl.decisions.selection.oort import Oort
from simfl.decisions.selection.power_of_choice import PowerOfChoice
from simfl.decisions.selection.random import Random
from simfl.decisions.selection.tifl import TiFL
from simfl.decisions.selection.virtual_queue import VirtualQueue, cheapest
from tests.decisions.views import client_view

KINDS = [Random, BySize, VirtualQueue, Oort, TiFL, PowerOfChoice]
RULES = [kind(count=3) for kind in KINDS]


def rounds(rule, number, view_of):
    """The clients chosen in each round; `view_of` gives the view of a round."""
    memory, chosen = rule.initial(), []
    for index in range(number):
        view, rng = view_of(index), np.random.default_rng(index)
        if isinstance(rule, QueryingSelection):
            memory, _ = rule.candidates(memory, view, rng)
        memory, clients = rule.decide(memory, view, rng)
        chosen.append(clients)
    return memory, chosen


def counts(chosen, clients):
    """How often each client was chosen."""
    return np.bincount(np.concatenate(chosen), minlength=clients)


@pytest.mark.parametrize("rule", RULES)
def test_clients_that_come_and_go_are_chosen_among(rule):
    """Distinct numbers out of each round's own view, at most three, whatever is unknown."""

    def view_of(index):
        there = np.random.default_rng(index + 100).choice(50, 2 + index % 6, replace=False)
        duration_s = np.where(there % 3 == 0, np.nan, there / 10.0)
        loss = np.where(there % 2 == 0, np.nan, 1.0 + there)
        return client_view(np.sort(there), estimated_duration_s=duration_s, last_loss=loss)

    _, chosen = rounds(rule, 30, view_of)

    for index, clients in enumerate(chosen):
        assert 1 <= clients.size <= 3
        assert np.unique(clients).size == clients.size
        assert np.isin(clients, view_of(index).clients).all()


@pytest.mark.parametrize("rule", KINDS)
def test_a_count_or_a_share_is_needed(rule):
    """Exactly one of them."""
    with pytest.raises(ValueError, match="count or share"):
        rule()
    assert rule(share=0.25).wanted(12) == 3
    assert rule(share=0.01).wanted(12) == 1


def test_by_size_draws_in_proportion():
    """One of two clients, three to one."""
    view = client_view([4, 7], num_examples=np.array([300, 100]))

    _, chosen = rounds(BySize(count=1), 2000, lambda index: view)

    assert counts(chosen, 8)[4] / 2000 == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize("seed", range(20))
def test_the_cheapest_set_is_the_best_of_all_sets(seed):
    """RBCS-F's minimum against every subset."""
    rng = np.random.default_rng(seed)
    queues, cost, count = rng.uniform(0, 3, 8), rng.uniform(0, 3, 8), int(rng.integers(1, 6))

    def objective(picked):
        picked = list(picked)
        return cost[picked].max() - queues[picked].sum()

    found = cheapest(queues, cost, count)

    assert found.size == count
    best = min(objective(picked) for picked in itertools.combinations(range(8), count))
    assert objective(found) == pytest.approx(best)


def test_virtual_queues_guarantee_the_least_share():
    """The slow clients get the rounds they are owed, the fast ones the rest."""
    view = client_view(np.arange(6), estimated_duration_s=np.array([1.0, 1, 1, 1, 9, 9]))
    rule = VirtualQueue(count=2, participation=0.2, latency_weight=0.3)

    _, chosen = rounds(rule, 500, lambda index: view)

    shares = counts(chosen, 6) / 500
    assert shares.sum() == pytest.approx(2.0)
    assert (shares >= 0.19).all()
    assert shares[:4].min() > shares[4:].max()


def test_virtual_queue_without_guarantee_takes_the_fastest():
    """Nothing owed: the shortest round."""
    view = client_view(np.arange(4), estimated_duration_s=np.array([3.0, 1, 2, 4]))

    _, chosen = rounds(VirtualQueue(count=2, participation=0.0), 5, lambda index: view)

    assert all(clients.tolist() == [1, 2] for clients in chosen)


def oort_view(duration_s, loss):
    """Clients with 100 examples each."""
    duration, losses = np.array(duration_s, dtype=float), np.array(loss, dtype=float)
    numbers = np.arange(duration.size)
    return client_view(
        numbers,
        num_examples=np.full(numbers.size, 100),
        estimated_duration_s=duration,
        last_loss=losses,
    )


def test_oort_tries_the_fastest_first():
    """At first nobody is known: the quickest clients are explored."""
    view = oort_view([4, 1, 3, 2], [np.nan] * 4)

    _, chosen = rounds(Oort(count=2), 2, lambda index: view)

    assert chosen[0].tolist() == [1, 3]
    assert 2 in chosen[1]


def test_oort_prefers_high_losses_and_short_turns():
    """Once all are known: high loss over low, and slow clients are penalised."""
    view = oort_view([1, 1, 1, 8], [2.0, 0.1, 2.0, 2.0])

    rule = Oort(count=1, exploration=1.0, exploration_decay=0.9, exploration_min=0.0)
    _, chosen = rounds(rule, 300, lambda index: view)

    often = counts(chosen, 4)
    assert often[1] == often[3] == 1  # tried, and never again
    assert min(often[0], often[2]) > 100


@pytest.mark.parametrize("loss", [np.inf, 1e307])
def test_oort_chooses_among_models_that_diverge(loss):
    """A loss without bound is above any other; the run, not the choice, tells that it diverged."""
    view = oort_view([1, 1, 1, 1], [loss, 0.1, loss, 0.1])

    rule = Oort(count=2, exploration=1.0, exploration_decay=0.5, exploration_min=0.0)
    _, chosen = rounds(rule, 30, lambda index: view)

    assert [clients.tolist() for clients in chosen[-20:]] == [[0, 2]] * 20


def test_oort_takes_who_never_answers_for_an_average_client():
    """As losses fall, clients without one are no better than the others: not one of every round."""
    silent, losses = np.arange(4), np.full(20, np.nan)

    def view_of(index):
        losses[4:] = np.where(np.isnan(losses[4:]), 1.0, losses[4:]) * 0.97
        return oort_view([1] * 20, losses if index else [np.nan] * 20)

    _, chosen = rounds(Oort(count=4), 200, view_of)

    often = counts(chosen[100:], 20)
    assert often[silent].sum() < 0.4 * often.sum()


@pytest.mark.parametrize("count", [1, 2])
def test_oort_goes_on_exploring_few_clients_at_a_time(count):
    """A fifth of one client is one client now and then: everybody is tried in the end."""
    known = np.full(100, np.nan)
    rule = Oort(count=count)
    memory = rule.initial()
    for index in range(800):
        view = oort_view(np.linspace(1, 2, 100), known)
        memory, clients = rule.decide(memory, view, np.random.default_rng(index))
        known[clients] = 2.0

    assert np.isfinite(known).all()


def test_oort_without_exploration_tries_nobody_new():
    """Nothing of one client is nobody."""
    view = oort_view([1.0] * 6, [2.0] * 6)
    rule = Oort(count=2, exploration=1.0, exploration_decay=1e-9, exploration_min=0.0)

    _, chosen = rounds(rule, 50, lambda index: view)

    assert np.unique(np.concatenate(chosen)).size == 2


def test_oorts_pacer_allows_slower_clients_when_utility_stalls():
    """The preferred duration grows by its step when the last window gained less."""
    rule = Oort(count=2, window=5, pace=0.5)

    memory, _ = rounds(
        rule, 11, lambda index: oort_view([1, 2, 3, 4], [1.0 if index < 5 else 0.5] * 4)
    )

    assert memory.preferred_s == pytest.approx(2.5 * 1.5)


def test_tifl_keeps_a_round_within_one_tier():
    """Clients of one round are of one tier of speed."""
    view = client_view(np.arange(20), estimated_duration_s=np.random.default_rng(0).random(20))
    tier = np.argsort(np.argsort(view.estimated_duration_s)) // 4

    _, chosen = rounds(TiFL(count=2, tiers=5), 100, lambda index: view)

    assert all(np.unique(tier[clients]).size == 1 for clients in chosen)
    assert {int(tier[clients[0]]) for clients in chosen} == set(range(5))


def test_tifl_has_its_tiers_when_all_have_been_there():
    """The tiers do not depend on which clients are available first."""
    duration_s = np.random.default_rng(3).random(20)
    tier = np.argsort(np.argsort(duration_s)) // 4

    def view_of(index):
        there = [np.array([7]), np.array([2, 7, 11])][index] if index < 2 else np.arange(20)
        return client_view(there, estimated_duration_s=duration_s[there])

    memory, chosen = rounds(TiFL(count=2, tiers=5, credits=20), 60, view_of)

    assert len(memory.limits_s) == 5
    assert all(np.unique(tier[clients]).size == 1 for clients in chosen[2:])
    assert sum(memory.draws) == 58  # credits are new with the tiers


def test_tifl_keeps_a_client_where_it_was_put():
    """Later estimates move nobody, and who may not play now keeps the place."""
    first_s, later_s = np.arange(20) / 10, np.arange(20)[::-1] / 10

    def view_of(index):
        there = np.arange(20) if index == 0 else np.arange(index % 2, 20, 2)
        return client_view(there, estimated_duration_s=(later_s if index else first_s)[there])

    _, chosen = rounds(TiFL(count=2, tiers=5), 60, view_of)

    assert all(np.unique(clients // 4).size == 1 for clients in chosen)


def test_tifl_draws_the_worst_tier_most():
    """Probabilities 3/6, 2/6, 1/6 by descending loss."""
    duration_s = np.repeat([1.0, 2.0, 3.0], 2)
    loss = np.repeat([0.2, 2.0, 1.0], 2)
    view = client_view(np.arange(6), estimated_duration_s=duration_s, last_loss=loss)

    _, chosen = rounds(TiFL(count=2, tiers=3), 3000, lambda index: view)

    drawn = counts(chosen, 6)[::2] / 3000
    assert drawn == pytest.approx([1 / 6, 3 / 6, 2 / 6], abs=0.03)


def test_tifl_takes_a_tier_that_it_knows_nothing_of_for_an_average_one():
    """Losses 2, unknown and 0.5: probabilities 3/6, 2/6, 1/6; with one known all have the same."""
    duration_s = np.repeat([1.0, 2.0, 3.0], 2)
    for known, expected in (
        ([2.0, np.nan, 0.5], [3 / 6, 2 / 6, 1 / 6]),
        ([np.nan, 2.0, np.nan], [1 / 3, 1 / 3, 1 / 3]),
    ):
        loss = np.repeat(known, 2)
        view = client_view(np.arange(6), estimated_duration_s=duration_s, last_loss=loss)

        _, chosen = rounds(TiFL(count=2, tiers=3), 3000, lambda index, view=view: view)

        assert counts(chosen, 6)[::2] / 3000 == pytest.approx(expected, abs=0.03)


def test_tifl_ranks_among_the_tiers_with_credits():
    """The tier of the second highest loss has none left: 2/3 and 1/3, not 3/4 and 1/4."""
    duration_s, loss = np.repeat([1.0, 2.0, 3.0], 2), np.repeat([2.0, 1.0, 0.2], 2)
    view = client_view(np.arange(6), estimated_duration_s=duration_s, last_loss=loss)
    rule = TiFL(count=2, tiers=3, credits=1)
    memory = replace(rounds(rule, 1, lambda index: view)[0], draws=(0, 1, 0))

    drawn = [rule.decide(memory, view, np.random.default_rng(index))[1] for index in range(3000)]

    assert counts(drawn, 6)[::2] / 3000 == pytest.approx([2 / 3, 0, 1 / 3], abs=0.03)


def test_tifls_credits_are_spent_evenly():
    """With one credit per tier every tier is drawn once before any is drawn again."""
    view = client_view(np.arange(6), estimated_duration_s=np.repeat([1.0, 2.0, 3.0], 2))

    _, chosen = rounds(TiFL(count=2, tiers=3, credits=1), 9, lambda index: view)

    for start in (0, 3, 6):
        assert sorted(clients[0] for clients in chosen[start : start + 3]) == [0, 2, 4]


def test_power_of_choice_asks_in_proportion_to_data():
    """One candidate of two clients, three to one; never one without data."""
    view = client_view([4, 7, 9], num_examples=np.array([300, 100, 0]))
    rule = PowerOfChoice(count=1, factor=1.0)

    asked = [
        rule.candidates(rule.initial(), view, np.random.default_rng(index))[1]
        for index in range(2000)
    ]

    often = counts(asked, 10)
    assert often[4] / 2000 == pytest.approx(0.75, abs=0.03)
    assert often[9] == 0


@pytest.mark.parametrize(("factor", "asked"), [(1.0, 3), (1.5, 5), (2.0, 6), (9.0, 10)])
def test_power_of_choice_asks_d_and_takes_the_m_highest(factor, asked):
    """d = factor m, rounded up, at most all; clients that were not queried are not chosen."""
    loss = np.random.default_rng(1).random(10)
    view = client_view(np.arange(10), last_loss=loss)
    rule = PowerOfChoice(count=3, factor=factor)

    memory, candidates = rule.candidates(rule.initial(), view, np.random.default_rng(2))
    _, chosen = rule.decide(memory, view, np.random.default_rng(3))

    assert candidates.size == asked
    highest = candidates[np.argsort(-loss[candidates])[:3]]
    assert chosen.tolist() == sorted(highest.tolist())


@pytest.mark.parametrize("loss", [1.0, np.nan])
def test_power_of_choice_breaks_ties_at_random(loss):
    """Equal and unknown losses favour nobody."""
    view = client_view(np.arange(4), last_loss=np.full(4, loss))

    _, chosen = rounds(PowerOfChoice(count=1, factor=4.0), 400, lambda index: view)

    assert counts(chosen, 4).min() > 70


def test_power_of_choice_prefers_a_known_loss():
    """A loss that is infinite is the highest, one that is no number the lowest."""
    view = client_view(np.arange(3), last_loss=np.array([np.nan, 5.0, np.inf]))

    _, chosen = rounds(PowerOfChoice(count=2, factor=2.0), 5, lambda index: view)

    assert all(clients.tolist() == [1, 2] for clients in chosen)
