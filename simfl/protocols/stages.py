"""Turns over media that clients share: when a message is there depends on who else sends.

Each client of a cohort is a process that goes from stage to stage, download, computation, upload.
Clients that take part in nothing are no process.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import simpy

from simfl.common.arrays import FloatArray, IntArray
from simfl.eventlog.log import EventLog
from simfl.protocols.attendance import EMPTY, UNAVAILABLE, Attendance
from simfl.protocols.clock import Clock
from simfl.protocols.drains import Drains
from simfl.protocols.flight import Flight, Late
from simfl.protocols.media import Media
from simfl.protocols.patience import Patience
from simfl.protocols.servers import Servers
from simfl.protocols.turn_rows import QUERY, computed, mishap_row
from simfl.system.presence import Mishap, Presence
from simfl.system.sharing.message import SharedMessage
from simfl.system.turn_plan import TurnPlan


@dataclass(frozen=True, eq=False)
class Cohort:
    """Who begins a turn now, and what that takes: `plan`, but for the messages, which are shared.

    `place` are the media of the clients' messages, `about` columns of all their rows, `idle_w`
    their idle powers, `radio_idle_s` the seconds since their last messages. `query` says that this
    is no training turn. A turn that is not over at `stops_s` (inf: never) ends then, by `causes`.
    `edge` (None: a flat server) is whose clients they are now.
    """

    clients: IntArray
    plan: TurnPlan
    downloads: list[SharedMessage]
    uploads: list[SharedMessage]
    place: list[tuple[int, ...]]
    idle_w: FloatArray
    radio_idle_s: FloatArray
    about: dict[str, int]
    query: bool
    stops_s: FloatArray
    causes: IntArray
    edge: int | None


@dataclass(frozen=True)
class Told:
    """Who learns of what happens.

    `received(places)` when a download is there, `computed(places, times_s)` when a computation
    begins that comes to its end, then; `free(place, radio_idle_s, stays_s)` when a turn is over, so
    long after its last message (inf: its radio is off), of a client that is there until then.
    """

    received: Callable[[IntArray], None]
    computed: Callable[[IntArray, FloatArray], None]
    free: Callable[[int, float, float], None]


class Stages(Flight):
    """The turns of a cohort as processes."""

    def __init__(
        self,
        cohort: Cohort,
        presence: Presence,
        drains: Drains | None,
        servers: Servers,
        media: Media,
        log: EventLog,
        clock: Clock,
        told: Told,
    ) -> None:
        self.clients = cohort.clients
        self.arrives_s = np.full(cohort.clients.size, np.inf)
        self._cohort = cohort
        self._servers = servers
        self._fails_s = servers.fails_s(cohort.edge)
        self._media = media
        self._log = log
        self._clock = clock
        self._told = told
        self.begun_s, self.idle_w = clock.now_s, cohort.idle_w
        self._active_j = np.zeros(cohort.clients.size)
        self._message_s = clock.now_s - cohort.radio_idle_s
        self._under_way = np.ones(cohort.clients.size, dtype=bool)
        self._away_s = np.full(cohort.clients.size, np.inf)
        self._attending = []
        for place, client in enumerate(cohort.clients.tolist()):
            tell = partial(self._befallen, place)
            own = drains if drains is not None and drains.covers(client) else None
            self._attending.append(Attendance(client, presence, own, clock, tell))
        self._changed = clock.env.event()
        self._tell: Late | None = None
        self._detail = QUERY if cohort.query else None
        for place, stop_s in enumerate(cohort.stops_s.tolist()):
            turn = clock.env.process(self._turn(place))
            self._attending[place].begin(partial(self._empty, place, turn))
            if stop_s < np.inf:
                clock.env.process(self._stop(turn, stop_s, int(cohort.causes[place])))

    def closed(self, patience: Patience, least: int) -> Generator[simpy.Event, Any, float]:
        """From arrival to arrival, everything that happens at a moment counting together.

        Raises `Crashed` when the edge server fails meanwhile.
        """
        wanted = patience.wanted(self.clients.size)
        deadline_s = self.begun_s + (patience.deadline_s or np.inf)
        while self._under_way.any():
            now_s, arrived = self._clock.now_s, int(np.isfinite(self.arrives_s).sum())
            overdue = now_s >= deadline_s
            if arrived >= least and (arrived >= wanted or overdue):
                break
            # Beyond the deadline nobody waits for those who have gone away meanwhile.
            if overdue and not (self._under_way & (self._away_s > now_s)).any():
                break
            ahead = np.isfinite(deadline_s) and not overdue
            alarm = [self._clock.until(deadline_s)] if ahead else []
            yield from self._until_changed(*alarm)
        return self._clock.now_s

    def finished(self) -> Generator[simpy.Event, Any, None]:
        """From end to end; raises `Crashed` as `closed` does."""
        while self._under_way.any():
            yield from self._until_changed()

    def _until_changed(self, *alarm: simpy.Event) -> Generator[simpy.Event, Any, None]:
        failure = self._servers.failure(self._cohort.edge)
        yield self._clock.env.any_of([self._changed, failure, *alarm])
        yield self._clock.gathered()
        self._servers.check(self._cohort.edge)

    def spent_j(self) -> FloatArray:
        """By the stages that are over."""
        return self._active_j

    def follow(self, closed_s: float, tell: Late) -> None:
        """One by one, when they arrive."""
        self._tell = tell

    def _turn(self, place: int) -> Generator[simpy.Event, Any, None]:
        attendance = self._attending[place]
        try:
            yield from self._go(place, attendance)
        except simpy.Interrupt as stopped:
            attendance.stop(int(stopped.cause))  # type: ignore[arg-type]  # ours always has one
            self._message_s[place] = -np.inf
        attendance.done()
        self._under_way[place] = False
        silent_s = float(self._clock.now_s - self._message_s[place])
        self._told.free(place, silent_s, attendance.stays_s(float(self._cohort.stops_s[place])))
        self._change()
        if self._tell is not None and np.isfinite(self.arrives_s[place]):
            self._tell(np.arange(self.clients.size) == place)

    def _change(self) -> None:
        """Something has happened to those who are under way."""
        changed, self._changed = self._changed, self._clock.env.event()
        changed.succeed()

    def _befallen(self, place: int, mishap: Mishap) -> None:
        self._log.row(**{**mishap_row(mishap), **self._cohort.about})
        if mishap.goes_on:
            self._away_s[place] = min(self._away_s[place], mishap.time_s)
            # Not before: beyond its deadline a server waits for who is still there.
            self._clock.until(mishap.time_s).callbacks.append(lambda _: self._change())

    def _go(self, place: int, attendance: Attendance) -> Generator[simpy.Event, Any, None]:
        """Stage by stage, as far as messages arrive."""
        download, upload = self._cohort.downloads[place], self._cohort.uploads[place]
        if not (yield from self._message(place, download, uplink=False)):
            return
        attendance.stage = 1
        self._told.received(np.array([place]))
        until_s, cause = self._compute(place, attendance)
        yield self._clock.until(until_s)
        if cause is not None:
            yield self._clock.gathered()
            raise simpy.Interrupt(cause)
        attendance.stage = 2
        if (yield from self._message(place, upload, uplink=True)):
            self.arrives_s[place] = self._clock.now_s

    def _stop(
        self, turn: simpy.Process, stop_s: float, cause: int
    ) -> Generator[simpy.Event, Any, None]:
        """End a turn, unless it is over by then, the moment itself included."""
        yield self._clock.until(stop_s)
        yield self._clock.gathered()
        if turn.is_alive:
            turn.interrupt(cause)

    def _empty(self, place: int, turn: simpy.Process) -> None:
        """Its battery is empty now; what else ends the turn at this moment, ends it."""
        if turn.is_alive and self._clock.now_s < self._cohort.stops_s[place]:
            turn.interrupt(EMPTY)

    def _compute(self, place: int, attendance: Attendance) -> tuple[float, int | None]:
        """Book the computation, or what is done of it before it is stopped, and its pauses.

        When it ends, and what stops it.
        """
        cohort, plan, begun_s = self._cohort, self._cohort.plan, self._clock.now_s
        cause, active_j = None, float(plan.compute_j[place])
        computed_s, leaves_s, pauses = attendance.stretched(float(plan.compute_s[place]))
        share, until_s = 1.0, computed_s
        ends = (
            (leaves_s, UNAVAILABLE),
            (float(cohort.stops_s[place]), int(cohort.causes[place])),
            (attendance.lasts_s(computed_s, active_j), EMPTY),
        )
        stops_s, stop = min(ends)
        for pause in pauses:
            if pause.time_s < stops_s:
                self._befallen(place, pause)
        if stops_s < computed_s:
            until_s, cause = stops_s, stop
            share = (until_s - begun_s) / (computed_s - begun_s)
        else:
            self._told.computed(np.array([place]), np.array([computed_s]))
        done = computed(plan, place, share)
        active_j = done["active_j"]
        self._active_j[place] += active_j
        self._log.row(
            "compute",
            int(self.clients[place]),
            until_s,
            start_s=begun_s,
            energy_j=float(cohort.idle_w[place]) * (until_s - begun_s) + active_j,
            extra_j=active_j,
            detail=self._detail,
            **done,
            **cohort.about,
        )
        return until_s, cause

    def _message(
        self, place: int, message: SharedMessage, *, uplink: bool
    ) -> Generator[simpy.Event, Any, bool]:
        """Whether it arrives: nobody hears what takes longer than its server works."""
        cohort, client = self._cohort, int(self.clients[place])
        spent_j = yield from self._media.carry(
            client,
            cohort.place[place],
            message,
            uplink,
            cohort.about,
            self._detail,
            self._attending[place],
            self._fails_s,
        )
        self._active_j[place] += spent_j
        if message.attempts:
            self._message_s[place] = self._clock.now_s - message.silent_s
        needed = bool(message.attempts) or uplink
        return not message.failed and (self._clock.now_s <= self._fails_s or not needed)
