"""Runs that do not begin at midnight, and clients that leave for good."""

from __future__ import annotations

import numpy as np
import pytest

from simfl.common.time_of_day import seconds_after_midnight, shown, tidy
from simfl.streams import Streams
from simfl.system.availability.absence import Absence
from simfl.system.availability.always import Always
from simfl.system.availability.base import Availability
from simfl.system.availability.daily_absence import DailyAbsence
from simfl.system.availability.diurnal import Diurnal
from simfl.system.availability.periodic import Periodic
from simfl.system.availability.renewal import Renewal
from simfl.system.availability.sojourn import Sojourn

NOON, HALF_PAST_ELEVEN = 43_200.0, 41_400.0
ONE = np.array([0])
STREAMS = Streams(1)


def test_times_of_day() -> None:
    """Each has one way to be written."""
    assert seconds_after_midnight("11:30") == HALF_PAST_ELEVEN
    assert seconds_after_midnight("0:00:07") == 7.0
    assert [tidy(one) for one in ("7:05", "07:05:00", "7:05:30")] == ["07:05", "07:05", "07:05:30"]
    assert shown(86_400.0 + HALF_PAST_ELEVEN + 5.0) == "11:30:05"


def test_noon_of_a_run_from_half_past_eleven_is_in_half_an_hour() -> None:
    """For good, until one o'clock, and every day."""
    for_good, for_an_hour, daily = (
        one.begun(HALF_PAST_ELEVEN, None)
        for one in (
            Absence(share=1.0),
            Absence(share=1.0, to_s=NOON + 3600),
            DailyAbsence(share=1.0),
        )
    )

    for model in (for_good, for_an_hour, daily):
        assert model.until_s(ONE, 0.0, STREAMS)[0] == 1800.0
        there = [model.available(ONE, at_s, STREAMS)[0] for at_s in (0.0, 1799.0, 1800.0)]
        assert there == [True, True, False]
    backs_s = [model.next_s(ONE, 2000.0, STREAMS)[0] for model in (for_good, for_an_hour, daily)]
    assert backs_s == [np.inf, 5400.0, 5400.0]
    assert for_an_hour.until_s(ONE, 5400.0, STREAMS)[0] == np.inf
    assert daily.until_s(ONE, 5400.0, STREAMS)[0] == 1800.0 + 86_400.0
    assert not for_good.available(ONE, 1e9, STREAMS)[0]


def test_an_absence_that_is_over_or_never_begins() -> None:
    """Refused, with the key."""
    with pytest.raises(ValueError, match=r"^to_s: must lie after from_s"):
        Absence(from_s=NOON, to_s=NOON)
    with pytest.raises(ValueError, match=r"^to_s: .* at 13:00, before .* begins at 14:00 "):
        Absence(to_s=NOON + 3600).begun(NOON + 7200, None)


@pytest.mark.parametrize("every", [1, 3, 8])
def test_the_share_is_of_the_members(every: int) -> None:
    """Half of a group leaves, wherever in the population its clients stand."""
    members = np.arange(0, 24 * every, every)

    there = Absence(from_s=0.0).begun(0.0, members).available(members, 1.0, STREAMS)

    assert abs(int(there.sum()) - 12) <= 1


def test_a_swing_by_the_hour_goes_by_the_clock() -> None:
    """A course with its peak at four, from one o'clock on, is one with its peak at three."""
    laws = Sojourn(600.0), Sojourn(3000.0)
    early = Renewal(*laws, diurnal=Diurnal(0.9, 10_800.0))
    late = Renewal(*laws, diurnal=Diurnal(0.9, 14_400.0)).begun(3600.0, None)
    who = np.arange(50)

    for at_s in (0.0, 5000.0, 40_000.0):
        np.testing.assert_array_equal(
            early.available(who, at_s, STREAMS), late.available(who, at_s, STREAMS)
        )


@pytest.mark.parametrize("model", [Always(), Periodic(), Renewal()])
def test_other_models_go_by_no_clock(model: Availability) -> None:
    """They are themselves: `start_time` is not read for them."""
    assert model.begun(3600.0, ONE) is model
