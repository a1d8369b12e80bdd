"""Queues rebuilt from the picks: the recursion, their stability, and what breaks it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simfl.measures.virtual_queues import Queues, VirtualQueues, growth, rebuilt, virtual_queues
from tests.measures.runs import edited, known_latencies

ROUNDS = 400


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """By scheduling rule and how many are in flight, made when asked for."""
    made = {}

    def get(scheduling, concurrency=2, rounds=ROUNDS, **options):
        key = (str(scheduling), concurrency, rounds, str(options))
        if key not in made:
            folder = tmp_path_factory.mktemp("known") / "run"
            made[key] = known_latencies(folder, scheduling, rounds, concurrency, **options)
        return made[key]

    return get


def picks(run):
    """The edge servers picked, in order."""
    return run.details("schedule")["value"].astype(int).tolist()


def test_the_recursion():
    """The card's anchor: delta .3 each, picks 1, 1, 2, 3, 1."""
    lengths = rebuilt(np.full(3, 0.3), np.array([0, 0, 1, 2, 0, 0]))

    expected = [
        [0.0, 0.0, 0.0], [0.0, 0.3, 0.3], [0.0, 0.6, 0.6],
        [0.3, 0.0, 0.9], [0.6, 0.3, 0.2], [0.0, 0.6, 0.5],
    ]  # fmt: skip
    np.testing.assert_allclose(lengths, expected, atol=1e-12)


def test_a_run_is_certified(runs):
    """The queues are those that the rule logged, they stay short, and they do not grow."""
    queues = virtual_queues(runs("fedcure"))

    assert queues.log_error < 1e-12
    assert queues.owed == pytest.approx([0.16] * 5)
    assert queues.longest.max() < 1
    assert queues.over_rounds[-1] < 0.003
    assert growth(queues).of_owed < 0.01


def test_a_pick_that_was_not_the_logged_one_is_seen(runs):
    """The queues that the rule logged do not follow from other picks."""

    def pick_another(number, row):
        if number == 100:
            row["value"] = (row["value"] + 1) % 5

    wrong = edited(runs("fedcure"), "schedule", pick_another)

    assert virtual_queues(wrong).log_error > 0.1


@pytest.mark.slow
def test_starved_edge_servers_are_seen(runs):
    """Greedy never serves three of five: their queues grow by all that they would be owed."""
    queues = virtual_queues(runs("greedy"), participation=0.8)

    found = growth(queues)
    assert found.of_owed == pytest.approx(1.0, abs=1e-6)
    assert found.low <= found.slope == pytest.approx(0.16, abs=1e-6)
    assert queues.over_rounds[-1] == pytest.approx(0.16, rel=0.02)
    assert virtual_queues(runs("greedy")) is None
    assert VirtualQueues().compute(runs("greedy")) == {}


@pytest.mark.slow
def test_all_in_flight_leaves_nothing_to_schedule(runs):
    """C = M: every rule makes the same schedule, and the slow queue grows; C = 2 does not."""
    rules = ("greedy", "fair", "fedcure")

    few = ROUNDS // 3
    degenerate = [picks(runs(rule, 5, few)) for rule in rules]
    assert degenerate[0] == degenerate[1] == degenerate[2]
    client_rounds = [runs(rule, 5, few).details("compute")[["time_s", "client"]] for rule in rules]
    assert client_rounds[0].to_numpy().tolist() == client_rounds[1].to_numpy().tolist()
    assert client_rounds[0].to_numpy().tolist() == client_rounds[2].to_numpy().tolist()
    assert growth(virtual_queues(runs("fedcure", 5, few))).of_owed > 0.3

    schedules = [picks(runs(rule, rounds=few)) for rule in rules]
    assert schedules[0] != schedules[1] != schedules[2] != schedules[0]
    assert growth(virtual_queues(runs("fedcure"))).of_owed < 0.01


@pytest.mark.slow
def test_a_larger_beta_lengthens_queues_that_do_not_grow(runs):
    """Two of the card's plateaus, .64 and 6 rounds."""
    levels = []
    for beta in (0.5, 10.0):
        queues = virtual_queues(runs({"name": "fedcure", "beta": beta}))
        levels.append(float(np.median(queues.longest[ROUNDS // 2 :])))
        assert growth(queues).of_owed < 0.05

    assert levels == pytest.approx([0.64, 6.0], rel=0.1)


@pytest.mark.slow
def test_the_beta_sweep(runs):
    """Plateaus of about .64, .64, 1, 6 and 30 rounds, and Lambda(t) / t goes to 0 (Theorem 2)."""
    plateaus = []
    for beta in (0.1, 0.5, 2.0, 10.0, 50.0):
        queues = virtual_queues(runs({"name": "fedcure", "beta": beta}, rounds=2000))
        plateaus.append(float(np.median(queues.longest[1000:])))
        assert growth(queues).of_owed < 0.02
        assert queues.over_rounds[-1] < queues.over_rounds[999] / 1.3

    assert plateaus == pytest.approx([0.64, 0.64, 1.0, 6.0, 30.0], rel=0.25)
    assert plateaus == sorted(plateaus)


def test_figures(runs):
    """In the manifest's form."""
    figures = VirtualQueues(participation=0.8).compute(runs("fedcure"))

    assert figures["longest"] < 1
    assert figures["growth_of_owed"] < 0.01
    assert figures["last_over_rounds"] < 0.003
    assert figures["log_error"] < 1e-12


@pytest.mark.parametrize(("owed", "edge"), [([0.1, 0.7], 1), ([0.1, 0.7], 0), ([0.0, 0.7], 1)])
def test_growth_is_a_share_of_what_that_edge_server_is_owed(owed, edge):
    """One that is never served gets behind by all that it is owed, whatever others are owed."""
    owed = np.array(owed)
    lengths = rebuilt(owed, np.full(100, 1 - edge))

    found = growth(Queues(lengths, owed, np.nan))

    assert found.slope == pytest.approx(owed[edge])
    assert found.of_owed == pytest.approx(1.0)


def test_an_edge_server_that_is_owed_nothing_has_no_part_in_growth():
    """All queues are empty at the end, its own first."""
    owed = np.array([0.0, 0.7])

    assert growth(Queues(rebuilt(owed, np.ones(100, dtype=int)), owed, np.nan)).of_owed == 0.0


def test_a_short_run_has_no_growth(runs):
    """There are too few rounds; the level is still known."""
    found = growth(virtual_queues(runs("fedcure", rounds=20)))

    assert np.isnan(found.slope)
    assert found.level > 0


def test_growth_is_known_from_nineteen_rounds_on():
    """Ten of them in the second half, as the page of warnings says."""
    owed, page = np.array([0.5, 0.5]), Path(__file__).parents[2] / "docs" / "warnings.md"
    for rounds, known in ((18, False), (19, True)):
        queues = Queues(rebuilt(owed, np.zeros(rounds, dtype=int)), owed, np.nan)
        assert np.isfinite(growth(queues).of_owed) == known

    assert "`virtual_queues`, which needs 19 rounds" in page.read_text(encoding="utf-8")
