"""Clients that are away at the same hours of every day."""

from __future__ import annotations

import numpy as np
import pytest

from simfl.streams import Streams
from simfl.system.availability.daily_absence import DailyAbsence

NOON = 43_200.0


@pytest.mark.parametrize(("clients", "share", "gone"), [(10, 0.5, 5), (100, 0.3, 30), (7, 1.0, 7)])
def test_the_share_is_kept_in_small_populations(clients: int, share: float, gone: int) -> None:
    """At noon the share is gone, within one client; before and after, everybody is there."""
    model, everybody = DailyAbsence(share=share), np.arange(clients)

    there = [model.available(everybody, at, Streams(1)).sum() for at in (NOON - 1, NOON, NOON + 60)]

    assert there[0] == clients
    assert abs(clients - there[1] - gone) <= 1
    assert there[1] == there[2]
    assert model.available(everybody, NOON + 3600, Streams(1)).all()
    assert not model.available(everybody, NOON + 3 * 86400, Streams(1)).all() or gone == 0


def test_times() -> None:
    """Back at 13 h, away at 12 h of the next day, on the second day as on the first."""
    model, one = DailyAbsence(share=1.0), np.array([0])

    assert model.next_s(one, 2 * 86400 + NOON + 5, Streams(1))[0] == 2 * 86400 + NOON + 3600
    assert model.until_s(one, 86400 + NOON - 5, Streams(1))[0] == 86400 + NOON
    assert model.until_s(one, 86400 + NOON + 3600, Streams(1))[0] == 2 * 86400 + NOON
    assert DailyAbsence(share=0.0).until_s(one, 5.0, Streams(1))[0] == np.inf


def test_hours_that_run_backwards() -> None:
    """An absence of no time, or one that outlasts its period, is refused."""
    for keys in ({"from_s": 50.0, "to_s": 50.0}, {"to_s": 100_000.0}, {"from_s": 90_000.0}):
        with pytest.raises(ValueError, match=r"^to_s"):
            DailyAbsence(**keys)


@pytest.mark.parametrize("start_s", [0.0, 3600.0, 12 * 3600.0, 23.5 * 3600.0])
def test_an_absence_over_night(start_s: float) -> None:
    """From 23:00 to 07:00, whenever the run begins: the hours of one from 0:00 to 8:00, shifted."""
    hour_s, one = 3600.0, np.array([0])
    night = DailyAbsence(from_s=23 * hour_s, to_s=7 * hour_s, share=1.0).begun(start_s, None)
    same = DailyAbsence(from_s=0.0, to_s=8 * hour_s, share=1.0).begun(start_s + hour_s, None)

    for time_s in np.arange(0.0, 3 * 86_400.0, 1800.0).tolist():
        there = night.available(one, time_s, Streams(1))
        assert there == same.available(one, time_s, Streams(1))
        if there[0]:
            assert night.until_s(one, time_s, Streams(1)) == same.until_s(one, time_s, Streams(1))
        else:
            assert night.next_s(one, time_s, Streams(1)) == same.next_s(one, time_s, Streams(1))
