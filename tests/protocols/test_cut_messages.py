"""Messages that are cut off: what was begun counts, and what was on air is paid for; both ways."""

from __future__ import annotations

import numpy as np
import pytest
import simpy

from simfl.eventlog.accounts import Accounts, Heading
from simfl.eventlog.kinds import KINDS, STATES, Actors
from simfl.eventlog.log import EventLog
from simfl.protocols.ahead import Limits, walk
from simfl.protocols.booking import Booking, Entry
from simfl.protocols.clock import Clock
from simfl.protocols.stepped import Listeners, Sending, Stepped
from simfl.protocols.timeline import Timeline
from simfl.system.cost import TransferCost
from simfl.system.link import FixedRateLink
from simfl.system.link_columns import LinkColumns
from simfl.system.message_loss import MessageLoss
from simfl.system.messages import Transmission, transmission
from simfl.system.segments import UPLOAD, Kind
from simfl.system.sharing.base import Sender
from simfl.system.sharing.medium import Channels
from simfl.system.sharing.processor_sharing import ProcessorSharing

SIZE = np.array([100_000])
LINK = FixedRateLink(
    uplink_bps=8e6,
    downlink_bps=8e6,
    rtt_s=0.0,
    power_transmit_w=10.0,
    power_receive_w=10.0,
    power_idle_w=0.0,
)
TRUTH = {0.5: (1, 1.0), 1.5: (2, 2.0), 2.0: (2, 2.0), 3.3: (3, 3.0), 4.0: (3, 3.0), 6.0: (3, 3.0)}
"""Attempts begun and joules on air of one message, cut at a time in seconds."""


def message(link: FixedRateLink = LINK) -> Transmission:
    """Four attempts of 0.1 s at 10 W, with waits of 1, 2 and 4 s in between; all of them fail."""
    nothing = np.zeros(1)
    return transmission(
        TransferCost(nothing, nothing, nothing),
        link.transmit(8.0 * SIZE, uplink=True),
        SIZE,
        LinkColumns.of([link]),
        np.zeros(1),
        MessageLoss(1.0, 1.0, 4, 2.0),
        np.array([0.5]),
        UPLOAD,
    )


def ahead(sent: Transmission, stop_s: float) -> Timeline:
    """What became of it, walked ahead."""
    timeline = Timeline(np.array([0]), {UPLOAD: sent})
    timeline.take(walk(sent.segments, timeline.actors, np.zeros(1), limits(stop_s)))
    return timeline


def stepped(sent: Transmission, stop_s: float) -> Timeline:
    """The same over a channel that nobody else uses."""
    clock = Clock(simpy.Environment())
    actors = Actors(1, 0)
    log = EventLog(actors, Accounts(np.zeros(actors.count), 1, list(KINDS), STATES))
    timeline = Timeline(np.array([0]), {UPLOAD: sent})
    flow = sent.segments.kind == Kind.FLOW
    flow_s, flow_j = sent.segments.seconds[flow][0, 0], sent.segments.joules[flow][0, 0]
    sender = Sender(0, 8.0 * float(SIZE[0]) / flow_s, flow_j / flow_s)
    over = clock.env.event()
    Stepped(
        sent.segments,
        timeline.actors,
        Entry(timeline, {}),
        limits(stop_s),
        Sending({UPLOAD: [sender]}, [()]),
        Channels(ProcessorSharing(1e9), clock.env),
        Booking(log, Heading.CLIENTS),
        None,
        clock,
        Listeners.when_done(over),
    )
    clock.run(over)
    return timeline


def limits(stop_s: float) -> Limits:
    """Something breaks it off then."""
    return Limits(np.array([stop_s]), np.zeros(1, dtype=np.int64))


@pytest.mark.parametrize("stop_s", TRUTH)
@pytest.mark.parametrize("way", [ahead, stepped])
def test_an_attempt_counts_when_it_has_begun_and_joules_are_watts_times_seconds(way, stop_s):
    """As computed on paper (the card's table), not pro rata of the whole message."""
    timeline = way(message(), stop_s)

    attempts, joules = TRUTH[stop_s]
    assert timeline.stages.attempts[UPLOAD, 0] == attempts
    assert timeline.stages.active_j[UPLOAD, 0] == pytest.approx(joules, rel=1e-12)
    assert timeline.stages.end_s[UPLOAD, 0] == stop_s
    assert not timeline.stages.over[UPLOAD, 0]


@pytest.mark.parametrize("stop_s", [0.04, 1.1, 1.15, 7.4, 15.0])
def test_both_ways_agree(stop_s):
    """In mid-flow, where a flow is about to begin, and where one has just ended."""
    one, two = (way(message(), stop_s).stages for way in (ahead, stepped))

    for name in ("attempts", "begin_s", "end_s", "over", "begun"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name), err_msg=name)
    np.testing.assert_allclose(one.active_j, two.active_j, rtol=1e-14)


@pytest.mark.parametrize("way", [ahead, stepped])
def test_a_radio_in_its_tail_is_paid_for_until_the_cut(way):
    """Cut after 0.4 of the 0.5 s of its tail: 1 J on air, and 0.4 s at 2 W."""
    radio = FixedRateLink(
        uplink_bps=8e6,
        downlink_bps=8e6,
        rtt_s=0.0,
        power_transmit_w=10.0,
        power_receive_w=10.0,
        power_idle_w=0.0,
        tail_s=0.5,
        power_tail_w=2.0,
    )

    timeline = way(message(radio), 0.5)

    assert timeline.stages.tail_j[UPLOAD, 0] == pytest.approx(0.8)
    assert timeline.stages.active_j[UPLOAD, 0] == pytest.approx(1.8)
