"""Runs segments step by step: over shared channels the time of a flow is not known ahead.

Each client is a process. Segments between two flows are computed ahead (`ahead.walk`); a flow joins
a channel, leaves it while its client is away, and ends when the channel says so.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import simpy

from simfl.common.arrays import IntArray
from simfl.protocols.ahead import Limits, Walked, walk
from simfl.protocols.battery_depletion import BatteryDepletion
from simfl.protocols.booking import END_OF_RUN, Booking, Entry, stopped_at
from simfl.protocols.clock import Clock
from simfl.protocols.timeline import Timeline
from simfl.system.availability.base import MOST_PAUSES
from simfl.system.interruptions import EMPTY, UNAVAILABLE, Interruption
from simfl.system.moments import Moment
from simfl.system.segments import DOWNLOAD, UPLOAD, Kind, Segments
from simfl.system.sharing.base import Carried, Sender
from simfl.system.sharing.medium import Channels, Medium, Place

Waiting = Generator[simpy.Event, Any, Any]


@dataclass(frozen=True)
class Listeners:
    """Callbacks for events of a client; `place` is its place in the cohort.

    `over(place, stage)`: a stage has ended. `begun(place, stage, ends_s)`: an activity without a
    flow begins, such as a computation, which will end at `ends_s` (inf: interrupted).
    `done(place)`: its last stage has ended. `pauses(several)`: absences that lie ahead.
    """

    over: Callable[[int, int], None]
    begun: Callable[[int, int, float], None]
    done: Callable[[int], None]
    pauses: Callable[[Sequence[Interruption]], None]

    @classmethod
    def when_done(cls, event: simpy.Event) -> Listeners:
        """For one client: triggers `event` when its last stage has ended."""
        return cls(_nobody, _nobody, lambda _: _happen(event), _nobody)


@dataclass(frozen=True, eq=False)
class Sending:
    """Who sends over shared channels: `senders[stage]` and `places` have one entry per client."""

    senders: Mapping[int, Sequence[Sender]]
    places: Sequence[Place]


def _nobody(*_: object) -> None:
    """No callback."""


def _happen(event: simpy.Event) -> None:
    event.succeed()


class _Flow:
    """One attempt at a message over a channel; absences cut it into several transfers."""

    def __init__(self, medium: Medium, sender: Sender, size_bytes: int, begun_s: float) -> None:
        self.begun_s = begun_s
        self._medium = medium
        self._sender = sender
        self._size_bits = 8.0 * size_bytes
        self._transfer: simpy.Event | None = None
        self.bits = 0.0
        self.active_j = 0.0

    def join(self) -> simpy.Event:
        """Sends the remaining bits from now on; the event happens when all have passed."""
        left_bytes = max(self._size_bits - self.bits, 0.0) / 8.0
        self._transfer = self._medium.transfer(self._sender, left_bytes)
        return self._transfer

    def leave(self) -> bool:
        """Stops sending; returns whether all bits have passed."""
        transfer, self._transfer = self._transfer, None
        assert transfer is not None
        over = transfer.triggered
        ended: Carried | None = transfer.value if over else None
        carried = ended or self._medium.cancel(transfer)
        self.bits = self._size_bits if over else self.bits + carried.bits
        self.active_j += carried.active_j
        return over

    def so_far(self) -> tuple[float, float]:
        """Joules above idle power, and the share of the bits that has passed."""
        active_j, bits = self.active_j, self.bits
        if self._transfer is not None:
            transfer = self._transfer
            ended: Carried | None = transfer.value if transfer.triggered else None
            carried = ended or self._medium.so_far(transfer)
            active_j, bits = active_j + carried.active_j, bits + carried.bits
        return active_j, min(bits / self._size_bits, 1.0)


class Stepped:
    """Takes clients (or servers) through their columns of `segments`, one process each.

    `numbers` (clients,): client or server numbers, as `limits` and batteries know them; the
    timeline's actors are numbers of the log. Results go to `entry.timeline`.
    """

    def __init__(
        self,
        segments: Segments,
        numbers: IntArray,
        entry: Entry,
        limits: Limits,
        sending: Sending,
        channels: Channels,
        booking: Booking,
        depletion: BatteryDepletion | None,
        clock: Clock,
        listeners: Listeners,
    ) -> None:
        self.entry = entry
        self._segments = segments
        self._numbers = numbers
        self._limits = limits
        self._sending = sending
        self._channels = channels
        self._booking = booking
        self._depletion = depletion
        self._clock = clock
        self._listeners = listeners
        # The segments computed ahead, and whether their stage ends with them.
        self._walks: dict[int, tuple[Walked, bool]] = {}
        self._flows: dict[int, tuple[int, _Flow]] = {}
        booking.open(entry, self.spent_j, self.cut)
        for place in range(numbers.size):
            clock.env.process(self._go(place))

    @property
    def _timeline(self) -> Timeline:
        return self.entry.timeline

    def spent_j(self) -> tuple[float, float]:
        """Joules so far of flows in progress: of devices above idle power, and of the network."""
        each = [self._flow_j(place) for place in self._flows]
        return sum(active_j for active_j, _ in each), sum(network_j for _, network_j in each)

    def cut(self, now_s: float) -> None:
        """The run ends: stops all clients in progress."""
        for place, (walked, whole) in self._walks.items():
            self._take(place, stopped_at(walked, now_s), whole=whole)
        for place, (stage, flow) in list(self._flows.items()):
            self._end_flow(place, over=False)
            if flow.begun_s == now_s:
                self._timeline.flow_undone(stage, place)
            self._timeline.stop(place, now_s, END_OF_RUN)
        self._walks.clear()

    def _go(self, place: int) -> Waiting:
        """Runs from the first segment to the last that happens."""
        table, happens = self._segments, np.flatnonzero(self._segments.happens[:, place])
        if not (table.stage[happens] == DOWNLOAD).any():
            self._listeners.over(place, DOWNLOAD)
        for stage, rows in groupby(happens.tolist(), key=lambda row: int(table.stage[row])):
            if not (yield from self._stage(place, stage, list(rows))):
                break
            self._booking.over(self.entry, stage, place)
            self._listeners.over(place, stage)
            if not self._timeline.goes_on(stage, place):
                break
        limits, client = self._limits, int(self._numbers[place])
        if limits.interruptions is not None:
            leaves_s = limits.interruptions.leaves_s(client, self._clock.now_s)
            self._timeline.ends.present_until_s[place] = min(leaves_s, float(limits.stops_s[place]))
        self._listeners.done(place)

    def _stage(self, place: int, stage: int, rows: list[int]) -> Waiting:
        """Runs a stage; returns whether it was completed."""
        kinds = self._segments.kind
        for flows, group in groupby(rows, key=lambda row: bool(kinds[row] == Kind.FLOW)):
            several = list(group)
            if self._clock.now_s >= self._limits.stops_s[place]:
                self._stop(place, stage, int(self._limits.causes[place]))
                return False
            whole = several[-1] == rows[-1]
            walked = self._flow_through if flows else self._walk
            if not (yield from walked(place, stage, several, whole)):
                return False
        return True

    def _walk(self, place: int, stage: int, rows: list[int], whole: bool) -> Waiting:
        """Runs segments without flows at once; returns whether they were completed."""
        who, now_s = self._numbers[[place]], self._clock.now_s
        own = self._segments.rows(np.array(rows)).take(np.array([place]))
        walked = walk(own, who, np.array([now_s]), self._limits.of(place))
        self._pause(walked.pauses)
        self._booking.expect(self._timeline, walked)
        self._walks[place] = walked, whole
        until_s = float(walked.stopped_s[0])
        stopped = bool(np.isfinite(walked.stops_s[0]))
        self._listeners.begun(place, stage, np.inf if stopped else until_s)
        yield self._clock.until(until_s, Moment.INTERRUPTION if stopped else Moment.END)
        del self._walks[place]
        self._take(place, walked, whole=whole)
        if stopped:
            self._befallen(place, stage, int(walked.causes[0]))
        return not stopped

    def _pause(self, pauses: Sequence[Interruption]) -> None:
        self._timeline.paused(pauses)
        self._booking.pauses(pauses, self.entry)
        self._listeners.pauses(pauses)

    def _take(self, place: int, walked: Walked, *, whole: bool) -> None:
        stage = int(walked.segments.stage[0])
        self._timeline.take(walked, np.array([place]), stage if whole else stage - 1)

    def _flow_through(self, place: int, stage: int, rows: list[int], whole: bool) -> Waiting:
        """Runs one attempt; returns whether it was completed."""
        timeline, client = self._timeline, int(self._numbers[place])
        size = int(timeline.messages.size_bytes[stage, place])
        uplink, now_s = stage == UPLOAD, self._clock.now_s
        timeline.flow_begins(stage, place, now_s)
        self._booking.flow_begins(int(timeline.actors[place]), now_s, size, uplink=uplink)
        channel = self._channels.of(self._sending.places[place], uplink)
        flow = _Flow(channel, self._sending.senders[stage][place], size, now_s)
        self._flows[place] = stage, flow
        drained = None if self._depletion is None else self._depletion.begin(client)
        cause = yield from self._carry(place, stage, flow, client, drained)
        self._end_flow(place, over=cause is None and whole)
        if self._depletion is not None:
            self._depletion.end(client, empty=cause == EMPTY)
        if cause is not None:
            self._stop(place, stage, cause)
        return cause is None

    def _carry(
        self, place: int, stage: int, flow: _Flow, client: int, drained: simpy.Event | None
    ) -> Waiting:
        """Waits until all bits have passed (None), or returns the cause why they never will."""
        limits, clock = self._limits, self._clock
        stop_s, cause = float(limits.stops_s[place]), int(limits.causes[place])
        pausing = limits.interruptions if limits.interruptions is not None else None
        ends_on_empty = drained is not None and not limits.goes_on_empty
        departures = 0
        while True:
            end = flow.join()
            leaves_s = np.inf if pausing is None else pausing.leaves_s(client, clock.now_s)
            yield from self._until(min(leaves_s, stop_s), end, drained if ends_on_empty else None)
            if flow.leave():
                return None
            if clock.now_s >= stop_s:
                return cause
            if ends_on_empty and drained is not None and drained.triggered:
                return EMPTY
            assert pausing is not None
            now_s, away_s = clock.now_s, pausing.away_s(client, UNAVAILABLE, clock.now_s)
            if away_s == np.inf:
                return UNAVAILABLE
            departures += 1
            if departures > MOST_PAUSES:
                raise pausing.restless(client, now_s)
            if away_s > 0:
                pause = pausing.pause(client, now_s, stage, away_s)
                self._pause([pause])
                if self._depletion is not None:
                    self._depletion.draw(client, 0.0)
                back_s = now_s + away_s
                alarm = drained if ends_on_empty else None
                yield from self._until(stop_s, clock.until(back_s), alarm)
                if clock.now_s >= stop_s:
                    return cause
                if clock.now_s < back_s:
                    return EMPTY

    def _until(self, time_s: float, *events: simpy.Event | None) -> Waiting:
        """Waits for one of the events, or a time; after everything else that ends at that time."""
        waits = [event for event in events if event is not None]
        if time_s < np.inf:
            waits.append(self._clock.until(time_s, Moment.INTERRUPTION))
        yield waits[0] if len(waits) == 1 else self._clock.env.any_of(waits)

    def _end_flow(self, place: int, *, over: bool) -> None:
        """Records the cost of a flow, completed or not."""
        active_j, network_j = self._flow_j(place)
        unmet_j, now_s = self._unmet_j(place), self._clock.now_s
        stage, flow = self._flows.pop(place)
        self._booking.flowed(flow.begun_s, now_s, active_j, network_j)
        joules = active_j + unmet_j, network_j, unmet_j
        self._timeline.flow_ends(stage, place, now_s, joules, over=over)

    def _flow_j(self, place: int) -> tuple[float, float]:
        """Joules of a flow so far: its client's above idle power, and the network's."""
        stage, flow = self._flows[place]
        active_j, share = flow.so_far()
        network_j = share * self._timeline.attempt_network_j(stage, place)
        return active_j - self._unmet_j(place), network_j

    def _unmet_j(self, place: int) -> float:
        """The joules of it that an empty battery has not given."""
        if self._depletion is None or not self._limits.goes_on_empty:
            return 0.0
        return self._depletion.unmet_j(int(self._numbers[place]))

    def _stop(self, place: int, stage: int, cause: int) -> None:
        self._timeline.stop(place, self._clock.now_s, cause)
        self._befallen(place, stage, cause)

    def _befallen(self, place: int, stage: int, cause: int) -> None:
        """A client has been stopped now: writes the rows of its stage and of the interruption."""
        self._booking.over(self.entry, stage, place)
        if self._limits.interruptions is not None:
            client, now_s = int(self._numbers[place]), self._clock.now_s
            one = self._limits.interruptions.interruption(client, cause, now_s, stage)
            self._booking.interruption(one, self.entry.about)
