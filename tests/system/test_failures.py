"""Crash and repair: how often, from which draws."""

from __future__ import annotations

import math

import numpy as np

from simfl.streams import Streams
from simfl.system.availability.sojourn import Sojourn
from simfl.system.failures import Failures, Outages

MACHINES = np.arange(20_000)
DAILY = Outages(Sojourn(86_400.0), Sojourn(600.0))


def test_a_task_is_hit_as_often_as_the_mean_time_to_failure_says() -> None:
    """1 - exp(-t / MTBF): 0.692 % of 600 s tasks at one failure a day."""
    failures = Failures(DAILY, Streams(1), "faults.client")

    working, fails_s = failures.at(MACHINES, 5e5)

    hit = (fails_s[working] < 5e5 + 600.0).mean()
    expected = 1 - math.exp(-600 / 86_400)
    assert abs(expected - 0.006920) < 1e-6
    assert abs(hit - expected) < 4 * math.sqrt(expected / MACHINES.size)
    assert abs((~working).mean() - 600 / 87_000) < 4 * math.sqrt(600 / 87_000 / MACHINES.size)


def test_a_machine_fails_and_is_repaired() -> None:
    """Between failure and repair it does not work, and fails at once."""
    failures = Failures(DAILY, Streams(1), "faults.client")
    fails_s = failures.fails_s(7, failures.works_s(7, 0.0))

    works_s = failures.works_s(7, fails_s)

    assert works_s > fails_s
    assert not failures.at(np.array([7]), (fails_s + works_s) / 2)[0][0]
    assert failures.fails_s(7, fails_s) == fails_s
    assert failures.works_s(7, works_s) == works_s
    assert failures.fails_s(7, works_s) > works_s


def test_each_kind_of_machine_has_draws_of_its_own() -> None:
    """The same distribution under two names is independent; under one name it is the same."""
    first, again = (Failures(DAILY, Streams(1), "faults.client") for _ in range(2))
    other = Failures(DAILY, Streams(1), "faults.edge_server")

    again.at(MACHINES[:10], 1e6)

    np.testing.assert_array_equal(first.at(MACHINES, 1e5)[1], again.at(MACHINES, 1e5)[1])
    correlation = np.corrcoef(first.at(MACHINES, 1e5)[1], other.at(MACHINES, 1e5)[1])[0, 1]
    assert abs(correlation) < 4 / math.sqrt(MACHINES.size)


def test_what_does_not_fail() -> None:
    """No outages: always working, and no failure in sight."""
    never = Failures(None, Streams(1), "faults.client")

    working, until_s = never.at(MACHINES[:3], 10.0)

    assert never.never
    assert working.all()
    assert (until_s == np.inf).all()
    assert (never.fails_s(0, 10.0), never.works_s(0, 10.0)) == (np.inf, 10.0)
