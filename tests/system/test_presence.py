"""Which clients could begin a round, and whether any ever will."""

from __future__ import annotations

import numpy as np
import pytest

from simfl.system.battery import Batteries, Supply
from simfl.system.interruptions import CRASH
from simfl.system.series import StepSeries
from tests.system.presences import Planned, presence

BOTH = np.array([0, 1])


def test_who_is_there_and_when_the_others_will_be() -> None:
    """Away from 7 to 9 s; the first client fails at 8 s, for 3 s."""
    there = presence((0.0, 7.0), (9.0, np.inf), failures=Planned(8.0, 99.0), clients=2)

    assert there.there(BOTH, 6.0).tolist() == [True, True]
    assert there.there(BOTH, 7.5).tolist() == [False, False]
    assert there.there(BOTH, 9.5).tolist() == [False, True]
    assert there.next_s(BOTH, 7.5).tolist() == [9.0, 9.0]
    assert there.next_s(BOTH, 8.5).tolist() == [11.0, 9.0]
    assert there.next_s(BOTH[:1], 9.5)[0] == 11.0


def test_who_is_broken_stops_at_once_and_not_when_repaired() -> None:
    """The first client fails at 8 s and works again at 11 s; the second fails at 9 s."""
    there = presence((0.0, np.inf), failures=Planned(8.0, 9.0), clients=2)

    stops_s, causes = there.interruptions.stops_s(BOTH, 8.5)

    assert stops_s.tolist() == [np.nextafter(8.5, np.inf), 9.0]
    assert causes.tolist() == [CRASH, CRASH]
    assert there.interruptions.away_s(0, CRASH, float(stops_s[0])) == pytest.approx(2.5)


def test_an_empty_client_is_there_once_it_is_charged() -> None:
    """Off from the start; 5 W make 10 J in 2 s, and then it draws 1 W."""
    charger = Supply(StepSeries([0.0], [5.0]), np.ones(1), np.zeros(1))
    one = presence(batteries=Batteries(np.array([100.0]), 0.0, [charger], lowest=0.1))

    assert not one.there(BOTH[:1], 1.0)[0]
    assert one.next_s(BOTH[:1], 1.0)[0] == 2.0
    assert one.there(BOTH[:1], 2.5)[0]
    np.testing.assert_allclose(one.level(BOTH[:1]), 0.12)
    assert np.isnan(presence().level(BOTH[:1]))


def test_nobody_for_ever() -> None:
    """Whether it makes sense to wait: one client that left for good, and one that will be back."""
    assert not presence((0.0, 7.0)).anybody(8.0)
    assert presence((0.0, 7.0), (9.0, 10.0)).anybody(8.0)
