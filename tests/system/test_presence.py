"""Turns that are cut short or paused, by hand: download 2 s, computation 10 s, upload 4 s."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.streams import Streams
from simfl.system.availability.base import Availability
from simfl.system.battery import Batteries, Supply
from simfl.system.failures import Failures
from simfl.system.presence import Leaving, Presence
from simfl.system.series import StepSeries
from simfl.system.turn_plan import TurnPlan

WHOLE = {
    "download_s": 2.0,
    "download_j": 4.0,
    "compute_s": 10.0,
    "dynamic_j": 20.0,
    "static_j": 10.0,
    "cycles": 1e9,
    "upload_s": 4.0,
    "upload_j": 8.0,
    "upload_network_j": 2.0,
    "down_bytes": 100,
    "up_bytes": 50,
    "download_attempts": 1,
    "upload_attempts": 2,
    "up_lost_bytes": 50,
    "download_failed": False,
    "upload_failed": False,
}


def plan(count: int = 1, **changes: float) -> TurnPlan:
    """The same turn for each of `count` clients."""
    columns = {**WHOLE, **changes}
    blank = {field.name: 0.0 for field in dataclasses.fields(TurnPlan)}
    whole = {name: np.full(count, value) for name, value in {**blank, **columns}.items()}
    return TurnPlan(**whole)


@dataclasses.dataclass(frozen=True)
class Intervals(Availability):
    """Everybody is there in the same intervals."""

    spans: tuple[tuple[float, float], ...]

    def available(self, clients: IntArray, time_s: float, streams: Streams) -> BoolArray:
        there = any(start <= time_s < end for start, end in self.spans)
        return np.full(clients.size, there)

    def next_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        later = [start for start, _ in self.spans if start > time_s]
        return np.full(clients.size, min(later, default=np.inf))

    def until_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        return np.full(clients.size, next(end for _, end in self.spans if end > time_s))


class Planned(Failures):
    """Machines that fail at given times, for 3 s."""

    def __init__(self, *fails_s: float) -> None:
        super().__init__(None, Streams(0), "")
        self._at_s = np.array(fails_s)

    @property
    def never(self) -> bool:
        return False

    def at(self, machines: IntArray, time_s: float) -> tuple[BoolArray, FloatArray]:
        fails_s = self._at_s[machines]
        broken = (fails_s <= time_s) & (time_s < fails_s + 3.0)
        ahead_s = np.where(time_s < fails_s, fails_s, np.inf)
        return ~broken, np.where(broken, fails_s + 3.0, ahead_s)


def presence(
    *spans: tuple[float, float],
    leaving: Leaving = "ignore",
    failures: Failures | None = None,
    batteries: Batteries | None = None,
    clients: int = 1,
) -> Presence:
    """Clients with 1 W of idle power."""
    never = failures or Failures(None, Streams(0), "")
    there = Intervals(spans or ((0.0, np.inf),))
    return Presence(there, leaving, never, batteries, np.ones(clients), Streams(0))


def turn(one: Presence, now_s: float = 0.0, **changes: Any) -> Any:
    """What becomes of client 0's turn."""
    server_fails_s = changes.pop("server_fails_s", np.inf)
    return one.turns(np.array([0]), plan(**changes), now_s, server_fails_s)


def test_who_leaves_and_is_ignored_goes_on() -> None:
    """The turn is as it was planned."""
    outcome = turn(presence((0.0, 7.0)))

    assert outcome.mishaps == []
    assert outcome.stops_s[0] == np.inf
    assert outcome.computed[0]
    assert outcome.plan.compute_s[0] == 10.0


def test_an_aborted_computation_costs_its_share_and_sends_nothing() -> None:
    """Gone at 7 s: half of the computation is paid for; back at 9 s."""
    outcome = turn(presence((0.0, 7.0), (9.0, np.inf), leaving="abort"))

    cut, [mishap] = outcome.plan, outcome.mishaps
    assert (outcome.stops_s[0], outcome.computed[0]) == (7.0, False)
    assert (cut.compute_s[0], cut.dynamic_j[0], cut.static_j[0], cut.cycles[0]) == (5, 10, 5, 5e8)
    assert (cut.upload_s[0], cut.upload_j[0], cut.up_bytes[0], cut.upload_attempts[0]) == (0,) * 4
    assert (cut.up_lost_bytes[0], cut.upload_network_j[0], cut.upload_failed[0]) == (0, 0, True)
    assert (cut.download_s[0], cut.download_failed[0]) == (2.0, False)
    assert (mishap.cause, mishap.time_s, mishap.stage) == ("unavailable", 7.0, "compute")
    assert (mishap.lasts_s, mishap.goes_on) == (2.0, False)


def test_a_message_that_is_cut_off_is_lost() -> None:
    """At 13 s the first of two attempts is under way; at 1 s the download, and nothing follows."""
    late = turn(presence((0.0, 13.0), leaving="abort"))
    early = turn(presence((0.0, 1.0), leaving="abort"))

    assert late.computed[0]
    assert (late.plan.upload_attempts[0], late.plan.up_lost_bytes[0]) == (1, 50)
    assert (late.plan.upload_s[0], late.plan.upload_j[0]) == (1.0, 2.0)
    assert (late.plan.upload_network_j[0], late.plan.upload_failed[0]) == (0.5, True)
    assert (early.plan.download_s[0], early.plan.down_lost_bytes[0]) == (1.0, 100)
    assert (early.plan.download_failed[0], early.computed[0]) == (True, False)


def test_a_paused_turn_works_only_while_the_client_is_there() -> None:
    """Away from 7 to 9 s and from 10 to 14 s: 5 + 1 + 4 s of computation end at 18 s."""
    there = ((0.0, 7.0), (9.0, 10.0), (14.0, 20.0), (25.0, np.inf))
    outcome = turn(presence(*there, leaving="pause"))

    paused = outcome.plan
    assert (paused.download_s[0], paused.compute_s[0], paused.upload_s[0]) == (2.0, 16.0, 9.0)
    assert (paused.dynamic_j[0], paused.upload_j[0], paused.upload_failed[0]) == (20, 8, False)
    found = [(one.time_s, one.lasts_s, one.stage, one.goes_on) for one in outcome.mishaps]
    assert found == [
        (7.0, 2.0, "compute", True),
        (10.0, 4.0, "compute", True),
        (20.0, 5.0, "upload", True),
    ]
    assert (outcome.stops_s[0], outcome.computed[0]) == (np.inf, True)


def test_a_pause_without_end_ends_the_turn() -> None:
    """Gone for good at 7 s: as an abort."""
    outcome = turn(presence((0.0, 7.0), leaving="pause"))

    [mishap] = outcome.mishaps
    assert (outcome.stops_s[0], outcome.plan.compute_s[0]) == (7.0, 5.0)
    assert (mishap.lasts_s, mishap.goes_on) == (np.inf, False)


def test_a_crash_ends_the_turn_paused_or_not() -> None:
    """A crash at 8 s, in a pause since 7 s, of the first client; the second goes on."""
    there = presence(
        (0.0, 7.0), (9.0, np.inf), leaving="pause", failures=Planned(8.0, 99.0), clients=2
    )

    outcome = there.turns(np.array([0, 1]), plan(2), 0.0, np.inf)

    assert outcome.stops_s.tolist() == [8.0, np.inf]
    assert outcome.plan.compute_s.tolist() == [6.0, 12.0]
    assert [(one.client, one.cause, one.lasts_s) for one in outcome.mishaps] == [
        (0, "unavailable", 2.0),
        (1, "unavailable", 2.0),
        (0, "crash", 3.0),
    ]
    assert there.there(np.array([0, 1]), 9.5).tolist() == [False, True]
    assert there.next_s(np.array([0]), 9.5)[0] == 11.0


def test_what_reaches_a_failed_server_is_lost() -> None:
    """A server that fails at 14 s gets no upload; at 1 s it has sent nothing either."""
    late, early = turn(presence(), server_fails_s=14.0), turn(presence(), server_fails_s=1.0)

    assert (late.plan.upload_failed[0], late.plan.up_lost_bytes[0]) == (True, 100)
    assert (late.plan.upload_s[0], late.computed[0], late.stops_s[0]) == (4.0, True, np.inf)
    assert (early.plan.download_failed[0], early.plan.down_lost_bytes[0]) == (True, 100)
    assert not early.computed[0]


def test_after_a_download_that_nobody_heard_the_radio_has_just_been_in_use() -> None:
    """An upload would have ended with half a second of waiting in vain."""
    late, early = (
        turn(presence(), server_fails_s=fails_s, radio_idle_s=0.5).plan for fails_s in (14.0, 1.0)
    )

    assert (late.radio_idle_s[0], early.radio_idle_s[0]) == (0.5, 0.0)


def test_what_would_have_followed_a_download_to_a_failed_server_is_not_paused() -> None:
    """The server fails at 1 s, the download is through at 2 s; the client leaves at 5 s."""
    one = presence((0.0, 5.0), (8.0, 100.0), leaving="pause")

    whole, lost = turn(one), turn(one, server_fails_s=1.0)

    assert [(pause.stage, pause.time_s) for pause in whole.mishaps] == [("compute", 5.0)]
    assert lost.mishaps == []
    assert lost.stays_s[0] == 5.0
    assert bool(lost.plan.download_failed[0]) and lost.plan.down_lost_bytes[0] == 100


def test_a_battery_that_runs_empty_ends_the_turn() -> None:
    """6 J for the download, then 4 W: 18 J last for 3 s of computing. 10 J are 2 s of charging."""
    charger = Supply(StepSeries([0.0, 50.0], [0.0, 5.0]), np.ones(1), np.zeros(1))
    batteries = Batteries(np.array([100.0]), 18.0, [charger], lowest=0.1)
    one = presence(batteries=batteries)

    assert one.there(np.array([0]), 0.0)[0]
    outcome = turn(one)

    [mishap] = outcome.mishaps
    assert outcome.stops_s[0] == 5.0
    assert outcome.plan.compute_s[0] == pytest.approx(3.0)
    assert (mishap.cause, mishap.stage, mishap.goes_on) == ("battery_empty", "compute", False)
    assert not one.there(np.array([0]), 20.0)[0]
    # Off from 5 s until two seconds of 5 W have made 10 J; then it draws 1 W of them.
    assert one.next_s(np.array([0]), 20.0)[0] == pytest.approx(52.0)
    assert one.there(np.array([0]), 53.0)[0]
    assert one.charge.settle(np.array([0]), 53.0).tolist() == [0]
    waited = np.array([0]), np.array([53.0]), np.array([False])
    assert one.charge.unmet_j(*waited)[0] == pytest.approx(47.0)
    assert one.charge.unmet_j(*waited)[0] == 0.0
    assert one.level(np.array([0]))[0] == pytest.approx(0.14)


def test_a_weak_charger_does_not_restart_an_empty_device_at_once() -> None:
    """3 W, then 4 W of load, 1 W comes in: 15 J last until 17 / 3 s; then it is off."""
    charger = Supply(StepSeries([0.0], [1.0]), np.ones(1), np.zeros(1))
    one = presence(batteries=Batteries(np.array([100.0]), 15.0, [charger], lowest=0.1))

    stops_s = float(turn(one).stops_s[0])

    assert stops_s == pytest.approx(17 / 3)
    assert not one.there(np.array([0]), stops_s)[0]


def test_a_turn_that_a_device_that_is_off_is_given_ends_at_once() -> None:
    """However much comes in: who asks nobody whether it is there gets nothing done."""
    charger = Supply(StepSeries([0.0], [50.0]), np.ones(1), np.zeros(1))

    outcome = turn(presence(batteries=Batteries(np.array([100.0]), 0.0, [charger])))

    [mishap] = outcome.mishaps
    assert (mishap.cause, mishap.stage, mishap.time_s) == ("battery_empty", "download", 0.0)
    assert outcome.plan.download_j[0] == 0.0


def test_a_turn_that_is_cut_for_another_reason_spares_the_battery() -> None:
    """6 J and 4 J: the client leaves after a second of computing, with 30 of 40 J left."""
    batteries = Batteries(np.array([100.0]), 40.0)
    one = presence((0.0, 3.0), leaving="abort", batteries=batteries)

    outcome = turn(one)

    assert outcome.mishaps[0].cause == "unavailable"
    assert batteries.charge_j[0] == pytest.approx(30.0)
    assert batteries.time_s[0] == 3.0


def test_after_a_failed_download_nothing_is_drawn_or_cut() -> None:
    """A crash at 8 s does not matter to a client whose download has failed at 2 s."""
    batteries = Batteries(np.array([100.0]), 40.0)
    one = presence(failures=Planned(8.0), batteries=batteries)

    outcome = turn(one, download_failed=True)

    assert outcome.mishaps == []
    assert not outcome.computed[0]
    assert batteries.charge_j[0] == pytest.approx(34.0)
    assert batteries.time_s[0] == 2.0


def test_nobody_for_ever() -> None:
    """Whether it makes sense to wait: one client that left for good, and one that will be back."""
    assert not presence((0.0, 7.0)).anybody(8.0)
    assert presence((0.0, 7.0), (9.0, 10.0)).anybody(8.0)
