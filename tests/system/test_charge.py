"""Batteries between client rounds: tails of radios, and what an empty battery does not give."""

from __future__ import annotations

import numpy as np
import pytest

from simfl.system.battery import Batteries, Supply
from simfl.system.charge import Charge
from simfl.system.series import StepSeries

ONE = np.array([0])
TAIL, WAIT = np.array([True]), np.array([False])


def charge(joules: float, *supplies: Supply) -> tuple[Charge, Batteries]:
    """A client that idles at 1 W on a battery of 100 J."""
    batteries = Batteries(np.array([100.0]), joules, supplies, lowest=0.1)
    return Charge(batteries, np.ones(1)), batteries


def at(*seconds: float) -> np.ndarray:
    """A column."""
    return np.array(seconds)


def spent(one: Charge, from_s: float, *segments: tuple[float, float]) -> list[float]:
    """What is not given to segments of so many seconds and joules beyond idle power."""
    seconds, joules = np.array(segments).T
    times_s = np.cumsum([from_s, *seconds])[:, None]
    return list(one.spend(ONE, times_s, joules[:, None])[:, 0])


def test_a_tail_is_drawn_from_the_battery() -> None:
    """50 J less 4 s of idling and 3 s of a tail of 2 W are 40 J; nothing is unmet."""
    one, batteries = charge(50.0)

    assert one.tails_end_s(ONE, at(0.0), at(3.0), at(2.0)).tolist() == [3.0]
    one.settle(ONE, 2.0)
    assert batteries.charge_j[0] == pytest.approx(44.0)
    assert one.settle(ONE, 4.0).size == 0
    assert batteries.charge_j[0] == pytest.approx(40.0)
    assert one.unmet_j(ONE, at(3.0), TAIL)[0] == one.unmet_j(ONE, at(4.0), WAIT)[0] == 0.0


def test_a_battery_that_runs_empty_in_the_tail_ends_it() -> None:
    """6 J last for 2 s of 3 W; then the client is off, until 2 W, which come in from then on, have
    charged it to 10 J at 7 s.
    """
    charger = Supply(StepSeries([0.0, 2.0], [0.0, 2.0]), np.ones(1), np.zeros(1))
    one, batteries = charge(6.0, charger)

    assert one.tails_end_s(ONE, at(0.0), at(9.0), at(2.0))[0] == pytest.approx(2.0)
    assert not one.can_take_part(ONE, 6.5)[0]
    assert batteries.off[0] and batteries.charge_j[0] == pytest.approx(9.0)
    assert one.ready_s(ONE, 6.5)[0] == pytest.approx(7.0)
    assert one.can_take_part(ONE, 8.0)[0]
    assert batteries.charge_j[0] == pytest.approx(11.0)
    assert one.unmet_j(ONE, at(8.0), WAIT)[0] == pytest.approx(5.0)
    assert one.unmet_j(ONE, at(2.0), TAIL)[0] == pytest.approx(0.0)


def test_a_client_that_is_off_has_no_tail() -> None:
    """Its radio is asleep, and what it would idle at is unmet."""
    one, _ = charge(0.0)

    assert one.tails_end_s(ONE, at(1.0), at(9.0), at(2.0)).tolist() == [-np.inf]
    assert one.settle(ONE, 5.0).tolist() == [0]
    assert one.unmet_j(ONE, at(5.0), WAIT)[0] == pytest.approx(5.0)
    assert one.unmet_j(ONE, at(5.0), WAIT)[0] == 0.0


def test_a_message_takes_what_is_there() -> None:
    """6 J of the 10 that 2 s at 1 + 4 W take; the rest is unmet, by the message and no wait."""
    one, batteries = charge(6.0)

    assert spent(one, 0.0, (2.0, 8.0)) == pytest.approx([4.0])
    assert batteries.off[0]
    assert one.unmet_j(ONE, at(2.0), WAIT)[0] == 0.0


def test_what_a_battery_does_not_give_is_known_of_each_segment() -> None:
    """Rest until 1 s, 1 J; 1 + 2 W for 1 s, 3 J; of 1 + 4 W for 2 s the first 2 J."""
    one, batteries = charge(6.0)

    assert spent(one, 1.0, (1.0, 2.0), (2.0, 8.0)) == pytest.approx([0.0, 8.0])
    assert batteries.off[0]
    assert one.unmet_j(ONE, at(4.0), WAIT)[0] == 0.0


def test_a_message_to_a_client_that_is_off_takes_nothing() -> None:
    """A message of 8 s at 1 + 4 W draws nothing for 5 s, while 2 W make 10 J, and then all of
    it.
    """
    charger = Supply(StepSeries([0.0], [2.0]), np.ones(1), np.zeros(1))
    one, batteries = charge(0.0, charger)

    assert spent(one, 0.0, (8.0, 32.0)) == pytest.approx([25.0])
    assert not batteries.off[0]
    assert batteries.charge_j[0] == pytest.approx(10.0 - 3 * 3.0)
