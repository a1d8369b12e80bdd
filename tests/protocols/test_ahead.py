"""Rounds that are cut short or paused, by hand: download 2 s, computation 10 s, upload 4 s.

The upload is sent twice, for a second each at 4 W, with 2 s of waiting in between.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.protocols.ahead import Limits, Walked, walk
from simfl.protocols.timeline import NOT_STOPPED, Timeline
from simfl.system.battery import Batteries, Supply
from simfl.system.cost import TransferCost
from simfl.system.interruptions import CRASH, EMPTY, UNAVAILABLE, Interruption
from simfl.system.link import FixedRateLink
from simfl.system.link_columns import LinkColumns
from simfl.system.message_loss import MessageLoss
from simfl.system.messages import Transmission, transmission
from simfl.system.presence import Presence
from simfl.system.round_plan import RoundPlan
from simfl.system.segments import COMPUTE, DOWNLOAD, UPLOAD, Kind, Row, Segments
from simfl.system.series import StepSeries
from tests.system.presences import Planned, presence

TWICE = MessageLoss(0.5, 2.0, 2)
"""Of which the first attempt fails with the draws below."""
IN_VAIN = MessageLoss(1.0, 0.5, 1)
LINK = FixedRateLink(
    uplink_bps=1.0,
    downlink_bps=1.0,
    rtt_s=0.0,
    power_transmit_w=0.0,
    power_receive_w=0.0,
    power_idle_w=0.0,
)
ONE = np.array([0])


def message(
    count: int, cost: tuple[float, float, float], size: int, loss: MessageLoss | None, stage: int
) -> Transmission:
    """A message of `count` clients; `cost` of an attempt: seconds, joules, joules of the
    network.
    """
    nothing = np.zeros(count)
    return transmission(
        TransferCost(nothing, nothing, nothing),
        TransferCost(*(np.full(count, one) for one in cost)),
        np.full(count, size),
        LinkColumns.of([LINK] * count),
        np.zeros(count),
        loss,
        np.full(count, 0.4),
        stage,
    )


def plan(
    count: int = 1,
    download: MessageLoss | None = None,
    upload: MessageLoss | None = TWICE,
) -> RoundPlan:
    """The same round for each of `count` clients: 4, 30 and 8 J, 1e9 cycles, 100 and 50 bytes."""
    down = message(count, (2.0, 4.0, 0.0), 100, download, DOWNLOAD)
    up = message(count, (1.0, 4.0, 1.0), 50, upload, UPLOAD)
    nothing, lasts_s, joules = np.zeros(count), np.full(count, 10.0), np.full(count, 30.0)
    everybody = np.ones(count, dtype=bool)
    work = Segments.of(
        [Row(COMPUTE, Kind.WORK, everybody, lasts_s, joules, nothing)],
        count,
    )
    table = Segments.join([down.segments, work, up.segments])
    return RoundPlan(
        table.without(table.stage > DOWNLOAD, down.failed),
        down,
        up,
        frequency_hz=np.full(count, 1e8),
        cycles=np.full(count, 1e9),
        compute_s=lasts_s,
        dynamic_j=np.full(count, 20.0),
        static_j=np.full(count, 10.0),
        compute_tail_j=nothing,
        radio_idle_s=up.since_last_attempt_s,
    )


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of rounds: when each ended early (inf: it did not), and all that befell it."""

    timeline: Timeline
    walked: Walked
    interruptions: list[Interruption]

    @property
    def stops_s(self) -> FloatArray:
        return self.timeline.ends.stops_s

    @property
    def computed(self) -> BoolArray:
        return np.isfinite(self.timeline.computed_s)

    @property
    def lasts_s(self) -> FloatArray:
        """Seconds of each stage, absences included; 0 where it has not begun."""
        lasts_s = self.timeline.stages.end_s - self.timeline.stages.begin_s
        return np.where(self.timeline.stages.begun, lasts_s, 0.0)

    @property
    def lost_bytes(self) -> IntArray:
        timeline = self.timeline
        return timeline.stages.attempts * timeline.messages.size_bytes - timeline.arrived_bytes


def rounds(
    one: Presence, planned: RoundPlan, clients: IntArray, server_fails_s: float = np.inf
) -> Outcome:
    """Rounds that begin at time 0."""
    stops_s, causes = one.interruptions.stops_s(clients, 0.0)
    limits = Limits(stops_s, causes, one.interruptions, one.charge, server_fails_s)
    walked = walk(planned.segments, clients, np.zeros(clients.size), limits)
    timeline = Timeline.of_round(clients, planned, server_fails_s)
    timeline.take(walked)
    timeline.paused(walked.pauses)
    ended = [
        one.interruptions.interruption(
            int(clients[place]), int(walked.causes[place]), float(walked.stops_s[place]), stage
        )
        for place, stage in walked.stops
    ]
    return Outcome(timeline, walked, [*timeline.pauses, *ended])


def client_round(
    one: Presence,
    server_fails_s: float = np.inf,
    download: MessageLoss | None = None,
    upload: MessageLoss | None = TWICE,
) -> Outcome:
    """What becomes of client 0's round."""
    return rounds(one, plan(1, download, upload), ONE, server_fails_s)


def test_a_round_that_nothing_happens_to() -> None:
    """Everything as planned: 100 bytes down, 50 up, 50 lost, 42 J and 2 J of the network."""
    outcome = client_round(presence())

    timeline = outcome.timeline
    assert timeline.stages.begun.all() and timeline.stages.over.all()
    assert outcome.lasts_s[:, 0].tolist() == [2.0, 10.0, 4.0]
    assert timeline.stages.active_j[:, 0].tolist() == [4.0, 30.0, 8.0]
    assert timeline.stages.attempts[:, 0].tolist() == [1, 0, 2]
    assert timeline.arrived_bytes[:, 0].tolist() == [100, 0, 50]
    assert outcome.lost_bytes[:, 0].tolist() == [0, 0, 50]
    assert timeline.stages.network_j[:, 0].tolist() == [0.0, 0.0, 2.0]
    assert (timeline.received[0], timeline.ends.done[0], timeline.arrives_s[0]) == (True, 1.0, 16.0)
    assert timeline.ends.stopped_by[0] == NOT_STOPPED
    assert (timeline.last_message_s[0], outcome.interruptions) == (16.0, [])


def test_who_leaves_and_is_ignored_goes_on() -> None:
    """The round is as planned."""
    outcome = client_round(presence((0.0, 7.0)))

    assert outcome.interruptions == []
    assert outcome.stops_s[0] == np.inf
    assert outcome.computed[0]
    assert outcome.lasts_s[COMPUTE, 0] == 10.0


def test_an_aborted_computation_costs_its_share_and_sends_nothing() -> None:
    """Gone at 7 s: half of the computation is paid for; back at 9 s."""
    outcome = client_round(presence((0.0, 7.0), (9.0, np.inf), leaving="abort"))

    cut, [found] = outcome.timeline, outcome.interruptions
    assert (outcome.stops_s[0], outcome.computed[0]) == (7.0, False)
    assert (outcome.lasts_s[COMPUTE, 0], cut.stages.active_j[COMPUTE, 0]) == (5.0, 15.0)
    assert (cut.ends.done[0], cut.ends.stopped_by[0]) == (0.5, UNAVAILABLE)
    assert not cut.stages.begun[UPLOAD, 0]
    assert (
        cut.stages.active_j[UPLOAD, 0],
        cut.stages.attempts[UPLOAD, 0],
        cut.arrived_bytes[UPLOAD, 0],
    ) == ((0,) * 3)
    assert (outcome.lost_bytes[UPLOAD, 0], cut.stages.network_j[UPLOAD, 0]) == (0, 0)
    assert cut.arrives_s[0] == np.inf
    assert (outcome.lasts_s[DOWNLOAD, 0], cut.received[0]) == (2.0, True)
    assert (found.cause, found.time_s, found.stage) == ("unavailable", 7.0, "compute")
    assert (found.lasts_s, found.goes_on) == (2.0, False)


def test_a_message_that_is_cut_off_is_lost() -> None:
    """At 13.5 s the first of two attempts is over; at 1 s the download, and nothing follows.

    The upload has taken what was on air: 4 J in the first second, and nothing in the half second of
    waiting (pro rata of its 1.5 of 4 s it would be 3 J). At 12.5 s half of the attempt is on air.
    """
    late = client_round(presence((0.0, 13.5), leaving="abort"))
    middle = client_round(presence((0.0, 12.5), leaving="abort"))
    early = client_round(presence((0.0, 1.0), leaving="abort"))

    assert late.computed[0]
    for outcome, lasts_s, active_j, network_j in ((late, 1.5, 4.0, 1.0), (middle, 0.5, 2.0, 0.5)):
        assert outcome.timeline.stages.attempts[UPLOAD, 0] == 1
        assert (outcome.lost_bytes[UPLOAD, 0], outcome.lasts_s[UPLOAD, 0]) == (50, lasts_s)
        assert outcome.timeline.stages.active_j[UPLOAD, 0] == active_j
        assert outcome.timeline.stages.network_j[UPLOAD, 0] == network_j
        assert outcome.timeline.arrives_s[0] == np.inf
    assert (early.lasts_s[DOWNLOAD, 0], early.lost_bytes[DOWNLOAD, 0]) == (1.0, 100)
    assert (early.timeline.received[0], early.computed[0]) == (False, False)


@pytest.mark.parametrize(("time_s", "attempts"), [(12.0, 0), (15.0, 1), (15.25, 2), (16.0, 2)])
def test_an_attempt_counts_when_its_bits_have_begun_to_flow(time_s: float, attempts: int) -> None:
    """Attempts begin at 12 s and at 15 s, and are none where they are cut at that very moment.

    Nor is the upload then a stage that has begun; what ends at the moment of the cut has ended.
    """
    outcome = client_round(presence((0.0, time_s), leaving="abort"))

    timeline = outcome.timeline
    assert timeline.stages.attempts[UPLOAD, 0] == attempts
    assert timeline.stages.begun[UPLOAD, 0] == (attempts > 0)
    assert outcome.computed[0]
    assert timeline.stages.over[UPLOAD, 0] == (time_s == 16.0)
    if time_s == 16.0:
        assert (outcome.interruptions, outcome.stops_s[0]) == ([], np.inf)
    else:
        [found] = outcome.interruptions
        assert (found.stage, found.time_s) == ("upload", time_s)


def test_a_paused_round_works_only_while_the_client_is_there() -> None:
    """Away from 7 to 9 s and from 10 to 14 s: 5 + 1 + 4 s of computation end at 18 s.

    Away again from 18.5 to 20 s, with half of the first attempt sent, and from 21 s to 26 s, in the
    wait: 0.5 + 0.5 s of sending, 0.5 + 1.5 s of waiting, 1 s of sending end at 28.5 s.
    """
    there = ((0.0, 7.0), (9.0, 10.0), (14.0, 18.5), (20.0, 21.0), (26.0, np.inf))
    outcome = client_round(presence(*there, leaving="pause"))

    paused = outcome.timeline
    assert outcome.lasts_s[:, 0].tolist() == [2.0, 16.0, 10.5]
    np.testing.assert_allclose(paused.stages.active_j[:, 0], [4.0, 30.0, 8.0])
    assert paused.stages.network_j[UPLOAD, 0] == pytest.approx(2.0)
    assert (paused.stages.attempts[UPLOAD, 0], paused.arrives_s[0], paused.ends.done[0]) == (
        2,
        28.5,
        1.0,
    )
    found = [(one.time_s, one.lasts_s, one.stage, one.goes_on) for one in outcome.interruptions]
    assert found == [
        (7.0, 2.0, "compute", True),
        (10.0, 4.0, "compute", True),
        (18.5, 1.5, "upload", True),
        (21.0, 5.0, "upload", True),
    ]
    assert (outcome.stops_s[0], outcome.computed[0], paused.ends.away_s[0]) == (np.inf, True, 7.0)


def test_absences_are_segments_that_take_nothing() -> None:
    """Away from 7 to 9 s and from 14.5 to 15 s; the computation is in two parts, of 15 J each."""
    there = ((0.0, 7.0), (9.0, 14.5), (15.0, np.inf))
    walked = client_round(presence(*there, leaving="pause"), upload=None).walked

    table = walked.segments
    columns = (table.kind, walked.begins_s[:, 0], walked.ends_s[:, 0], table.joules[:, 0])
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == [
        (Kind.FLOW, 0.0, 2.0, 4.0),
        (Kind.WORK, 2.0, 7.0, 15.0),
        (Kind.AWAY, 7.0, 9.0, 0.0),
        (Kind.WORK, 9.0, 14.0, 15.0),
        (Kind.FLOW, 14.0, 14.5, 2.0),
        (Kind.AWAY, 14.5, 15.0, 0.0),
        (Kind.RESUMED, 15.0, 15.5, 2.0),
    ]


def test_a_pause_without_end_ends_the_round() -> None:
    """Gone for good at 7 s: as an abort."""
    outcome = client_round(presence((0.0, 7.0), leaving="pause"))

    [found] = outcome.interruptions
    assert (outcome.stops_s[0], outcome.lasts_s[COMPUTE, 0]) == (7.0, 5.0)
    assert (outcome.timeline.stages.active_j[COMPUTE, 0], outcome.timeline.ends.done[0]) == (
        15.0,
        0.5,
    )
    assert (found.lasts_s, found.goes_on) == (np.inf, False)


def test_a_crash_ends_the_round_paused_or_not() -> None:
    """A crash at 8 s, in a pause since 7 s, of the first client; the second goes on."""
    there = presence(
        (0.0, 7.0), (9.0, np.inf), leaving="pause", failures=Planned(8.0, 99.0), clients=2
    )

    outcome = rounds(there, plan(2), np.array([0, 1]))

    assert outcome.stops_s.tolist() == [8.0, np.inf]
    assert outcome.lasts_s[COMPUTE].tolist() == [6.0, 12.0]
    assert outcome.timeline.stages.active_j[COMPUTE].tolist() == [15.0, 30.0]
    assert outcome.timeline.ends.stopped_by.tolist() == [CRASH, NOT_STOPPED]
    assert [(one.client, one.cause, one.lasts_s) for one in outcome.interruptions] == [
        (0, "unavailable", 2.0),
        (1, "unavailable", 2.0),
        (0, "crash", 3.0),
    ]


def test_what_reaches_a_failed_server_is_lost() -> None:
    """A server that fails at 14 s gets no upload; at 1 s it has sent nothing either."""
    late, early = client_round(presence(), 14.0), client_round(presence(), 1.0)

    assert (late.timeline.arrives_s[0], late.lost_bytes[UPLOAD, 0]) == (np.inf, 100)
    assert (late.lasts_s[UPLOAD, 0], late.computed[0], late.stops_s[0]) == (4.0, True, np.inf)
    assert (early.timeline.received[0], early.lost_bytes[DOWNLOAD, 0]) == (False, 100)
    assert not early.computed[0]


def test_after_a_download_that_nobody_heard_the_radio_has_just_been_in_use() -> None:
    """An upload that was given up ends with half a second of waiting: 12 + 1 + 0.5 s."""
    late, early = (client_round(presence(), fails_s, upload=IN_VAIN) for fails_s in (14.0, 1.0))

    ended_s = [float(one.walked.stopped_s[0]) for one in (late, early)]
    assert ended_s == [13.5, 2.0]
    assert [float(one.timeline.last_message_s[0]) for one in (late, early)] == [13.0, 2.0]


def test_what_would_have_followed_a_download_to_a_failed_server_is_not_paused() -> None:
    """The server fails at 1 s, the download is through at 2 s; the client leaves at 5 s."""
    one = presence((0.0, 5.0), (8.0, 100.0), leaving="pause")

    whole, lost = client_round(one), client_round(one, 1.0)

    assert [(pause.stage, pause.time_s) for pause in whole.interruptions] == [("compute", 5.0)]
    assert lost.interruptions == []
    assert lost.timeline.ends.present_until_s[0] == 5.0
    assert not lost.timeline.received[0] and lost.lost_bytes[DOWNLOAD, 0] == 100


def test_a_battery_that_runs_empty_ends_the_round() -> None:
    """6 J for the download, then 4 W: 18 J last for 3 s of computing. 10 J are 2 s of charging."""
    charger = Supply(StepSeries([0.0, 50.0], [0.0, 5.0]), np.ones(1), np.zeros(1))
    batteries = Batteries(np.array([100.0]), 18.0, [charger], lowest=0.1)
    one = presence(batteries=batteries)

    assert one.there(ONE, 0.0)[0]
    outcome = client_round(one)

    [found] = outcome.interruptions
    assert outcome.stops_s[0] == 5.0
    assert outcome.lasts_s[COMPUTE, 0] == pytest.approx(3.0)
    assert outcome.timeline.stages.active_j[COMPUTE, 0] == pytest.approx(9.0)
    assert outcome.timeline.ends.stopped_by[0] == EMPTY
    assert (found.cause, found.stage, found.goes_on) == ("battery_empty", "compute", False)
    assert not one.there(ONE, 20.0)[0]
    # Off from 5 s until two seconds of 5 W have made 10 J; then it draws 1 W of them.
    assert one.next_s(ONE, 20.0)[0] == pytest.approx(52.0)
    assert one.there(ONE, 53.0)[0]
    assert one.charge is not None
    assert one.charge.settle(ONE, 53.0).tolist() == [0]
    waited = ONE, np.array([53.0]), np.array([False])
    assert one.charge.unmet_j(*waited)[0] == pytest.approx(47.0)
    assert one.charge.unmet_j(*waited)[0] == 0.0
    assert one.level(ONE)[0] == pytest.approx(0.14)


def test_a_client_that_is_away_draws_idle_power_only() -> None:
    """6 J for the download, 8 J until 4 s, 2 J while it is away until 6 s, then 4 W for 0.5 s.

    Spread evenly over 12 s of a paused computation, 30 J would have emptied 18 J before.
    """
    batteries = Batteries(np.array([100.0]), 18.0)
    there = ((0.0, 4.0), (6.0, np.inf))

    outcome = client_round(presence(*there, leaving="pause", batteries=batteries))

    pause, empty = outcome.interruptions
    assert (pause.time_s, pause.goes_on) == (4.0, True)
    assert (empty.cause, empty.time_s) == ("battery_empty", pytest.approx(6.5))
    assert outcome.timeline.stages.active_j[COMPUTE, 0] == pytest.approx(7.5)
    assert outcome.timeline.ends.done[0] == pytest.approx(0.25)


def test_a_battery_empties_with_what_is_on_air() -> None:
    """Half a joule less than the 42 + 16 J of the round: it ends 0.1 s early, at 5 W.

    The wait before the second attempt takes idle power only: until 15 s it is 6 + 40 + 5 + 2 J.
    """
    batteries = Batteries(np.array([100.0]), 57.5)

    outcome = client_round(presence(batteries=batteries))

    assert outcome.stops_s[0] == pytest.approx(15.9)
    assert outcome.timeline.stages.active_j[UPLOAD, 0] == pytest.approx(4.0 + 3.6)
    assert outcome.lost_bytes[UPLOAD, 0] == 100


def test_a_weak_charger_does_not_restart_an_empty_device_at_once() -> None:
    """3 W, then 4 W of load, 1 W comes in: 15 J last until 17 / 3 s; then it is off."""
    charger = Supply(StepSeries([0.0], [1.0]), np.ones(1), np.zeros(1))
    one = presence(batteries=Batteries(np.array([100.0]), 15.0, [charger], lowest=0.1))

    stops_s = float(client_round(one).stops_s[0])

    assert stops_s == pytest.approx(17 / 3)
    assert not one.there(ONE, stops_s)[0]


def test_a_round_that_a_device_that_is_off_is_given_ends_at_once() -> None:
    """However much comes in: who asks nobody whether it is there gets nothing done."""
    charger = Supply(StepSeries([0.0], [50.0]), np.ones(1), np.zeros(1))

    outcome = client_round(presence(batteries=Batteries(np.array([100.0]), 0.0, [charger])))

    [found] = outcome.interruptions
    assert (found.cause, found.stage, found.time_s) == ("battery_empty", "download", 0.0)
    assert outcome.timeline.stages.active_j[DOWNLOAD, 0] == 0.0
    assert not outcome.timeline.stages.begun.any()


def test_a_round_that_is_cut_for_another_reason_spares_the_battery() -> None:
    """6 J and 4 J: the client leaves after a second of computing, with 30 of 40 J left."""
    batteries = Batteries(np.array([100.0]), 40.0)
    one = presence((0.0, 3.0), leaving="abort", batteries=batteries)

    outcome = client_round(one)

    assert outcome.interruptions[0].cause == "unavailable"
    assert batteries.charge_j[0] == pytest.approx(30.0)
    assert batteries.time_s[0] == 3.0


def test_after_a_failed_download_nothing_is_drawn_or_cut() -> None:
    """A crash at 8 s does not matter to a client whose download has failed at 2 s.

    It has 40 J less 6 J for that, and half a joule for as long a wait before it is given up.
    """
    batteries = Batteries(np.array([100.0]), 40.0)
    one = presence(failures=Planned(8.0), batteries=batteries)

    outcome = client_round(one, download=IN_VAIN)

    assert outcome.interruptions == []
    assert not outcome.computed[0]
    assert not outcome.timeline.stages.begun[COMPUTE:].any()
    assert batteries.charge_j[0] == pytest.approx(33.5)
    assert batteries.time_s[0] == 2.5


def test_what_a_round_took_does_not_depend_on_company() -> None:
    """To the last bit: attempts of 0.7 s with waits between them, cut at 7.7 s."""
    loss = MessageLoss(1.0, 0.1, 10, 1.3)
    sent = message(3, (0.7, 1.1, 0.3), 50, loss, UPLOAD)
    cut = Limits(np.full(3, 7.7), np.zeros(3, dtype=np.int64))
    everybody = np.arange(3)
    together = Timeline(everybody, {UPLOAD: sent})
    together.take(walk(sent.segments, everybody, np.zeros(3), cut))

    alone = Timeline(ONE, {UPLOAD: message(1, (0.7, 1.1, 0.3), 50, loss, UPLOAD)})
    alone.take(walk(sent.segments.take(ONE), ONE, np.zeros(1), cut.of(0)))

    for name in ("active_j", "network_j", "attempts", "end_s", "begin_s"):
        np.testing.assert_array_equal(
            getattr(alone.stages, name)[:, 0], getattr(together.stages, name)[:, 2], err_msg=name
        )


def test_beside_rounds_an_empty_battery_ends_no_message() -> None:
    """4.5 J are left for 3 W during 2 s: the message arrives, and 1.5 J were not given."""
    batteries = Batteries(np.array([100.0]), 4.5)
    sent = message(1, (2.0, 4.0, 0.0), 100, None, DOWNLOAD)
    one = presence(batteries=batteries)

    timeline = Timeline(ONE, {DOWNLOAD: sent})
    timeline.take(walk(sent.segments, ONE, np.zeros(1), Limits.none(1, one.charge)))

    assert timeline.received[0] and timeline.stages.over[DOWNLOAD, 0]
    assert (timeline.stages.active_j[DOWNLOAD, 0], timeline.stages.unmet_j[DOWNLOAD, 0]) == (
        4.0,
        1.5,
    )
    assert timeline.spent_j[0] == 2.5


def test_limits_of_one_client() -> None:
    """The second of three."""
    limits = Limits(np.array([1.0, 2.0, 3.0]), np.array([0, 1, 0]), heard_s=9.0)

    second = limits.of(1)

    assert (second.stops_s.tolist(), second.causes.tolist()) == ([2.0], [1])
    assert second.heard_s == 9.0
