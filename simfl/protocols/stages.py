"""Turns over media that clients share: when a message is there depends on who else sends.

Each client of a cohort is a process that goes from stage to stage, download, computation, upload.
Clients that take part in nothing are no process.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from simfl.eventlog import EventLog
from simfl.protocols.clock import Clock
from simfl.protocols.flight import Flight, Late
from simfl.protocols.media import Media
from simfl.protocols.patience import Patience
from simfl.protocols.turn_rows import QUERY, compute_detail
from simfl.system.sharing.message import SharedMessage
from simfl.system.turn_plan import TurnPlan

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Cohort:
    """Who begins a turn now, and what that takes: `plan`, but for the messages, which are shared.

    `place` are the media of the clients' messages, `about` columns of all their rows, `idle_w`
    their idle powers, `radio_idle_s` the seconds since their last messages. `query` says that this
    is no training turn. At `stops_s` (inf: never) a turn ends that is not over by then.
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


@dataclass(frozen=True)
class Told:
    """Who learns of what happens.

    `received(places)` when a download is there, `computed(places, times_s)` when a computation
    begins that comes to its end, then; `stopped(place, stage)` when a turn is stopped, in stage 0,
    1 or 2; `free(place, radio_idle_s)` when one is over, so long after its last message (inf: its
    radio is off).
    """

    received: Callable[[IntArray], None]
    computed: Callable[[IntArray, FloatArray], None]
    stopped: Callable[[int, int], None]
    free: Callable[[int, float], None]


class Stages(Flight):
    """The turns of a cohort as processes."""

    def __init__(
        self,
        cohort: Cohort,
        media: Media,
        log: EventLog,
        clock: Clock,
        told: Told,
    ) -> None:
        self.clients = cohort.clients
        self.arrives_s = np.full(cohort.clients.size, np.inf)
        self._cohort = cohort
        self._media = media
        self._log = log
        self._clock = clock
        self._told = told
        self.begun_s, self.idle_w = clock.now_s, cohort.idle_w
        self._active_j = np.zeros(cohort.clients.size)
        self._message_s = clock.now_s - cohort.radio_idle_s
        self._under_way = cohort.clients.size
        self._changed = clock.env.event()
        self._tell: Late | None = None
        self._mark = QUERY if cohort.query else ""
        self._details = compute_detail(cohort.plan, self._mark)
        self._stage = np.zeros(cohort.clients.size, dtype=np.int64)
        for place, stop_s in enumerate(cohort.stops_s.tolist()):
            turn = clock.env.process(self._turn(place))
            if stop_s < np.inf:
                clock.env.process(self._stop(turn, stop_s))

    def closed(self, patience: Patience, least: int) -> Generator[simpy.Event, Any, float]:
        """From arrival to arrival, everything that happens at a moment counting together."""
        wanted = patience.wanted(self.clients.size)
        deadline_s = self.begun_s + (patience.deadline_s or np.inf)
        while self._under_way:
            now_s, arrived = self._clock.now_s, int(np.isfinite(self.arrives_s).sum())
            if arrived >= least and (arrived >= wanted or now_s >= deadline_s):
                break
            ahead = np.isfinite(deadline_s) and now_s < deadline_s
            alarm = [self._clock.until(deadline_s)] if ahead else []
            yield self._clock.env.any_of([self._changed, *alarm])
            yield self._clock.gathered()
        return self._clock.now_s

    def finished(self) -> Generator[simpy.Event, Any, None]:
        """From end to end."""
        while self._under_way:
            yield self._changed
            yield self._clock.gathered()

    def spent_j(self) -> FloatArray:
        """By the stages that are over."""
        return self._active_j

    def follow(self, closed_s: float, tell: Late) -> None:
        """One by one, when they arrive."""
        self._tell = tell

    def _turn(self, place: int) -> Generator[simpy.Event, Any, None]:
        try:
            yield from self._go(place)
        except simpy.Interrupt:
            self._told.stopped(place, int(self._stage[place]))
            self._message_s[place] = -np.inf
        self._under_way -= 1
        self._told.free(place, float(self._clock.now_s - self._message_s[place]))
        changed, self._changed = self._changed, self._clock.env.event()
        changed.succeed()
        if self._tell is not None and np.isfinite(self.arrives_s[place]):
            self._tell(np.arange(self.clients.size) == place)

    def _go(self, place: int) -> Generator[simpy.Event, Any, None]:
        """Stage by stage, as far as messages arrive."""
        download, upload = self._cohort.downloads[place], self._cohort.uploads[place]
        yield from self._message(place, download, uplink=False)
        if download.failed:
            return
        self._stage[place] = 1
        self._told.received(np.array([place]))
        yield self._clock.until(self._compute(place))
        self._stage[place] = 2
        yield from self._message(place, upload, uplink=True)
        if not upload.failed:
            self.arrives_s[place] = self._clock.now_s

    def _stop(self, turn: simpy.Process, stop_s: float) -> Generator[simpy.Event, Any, None]:
        """End a turn, unless it is over by then, the moment itself included."""
        yield self._clock.until(stop_s)
        yield self._clock.gathered()
        if turn.is_alive:
            turn.interrupt()

    def _compute(self, place: int) -> float:
        """Book the computation, or what is done of it before it is stopped; when it would end."""
        cohort, plan, begun_s = self._cohort, self._cohort.plan, self._clock.now_s
        duration_s, detail = float(plan.compute_s[place]), self._details[place]
        computed_s = begun_s + duration_s
        share, until_s = 1.0, computed_s
        if cohort.stops_s[place] < computed_s:
            until_s = float(cohort.stops_s[place])
            share = (until_s - begun_s) / duration_s
            cut = plan.one(place).cut(np.array([1]), np.array([share]))
            detail = compute_detail(cut, self._mark)[0]
        else:
            self._told.computed(np.array([place]), np.array([computed_s]))
        active_j = share * float(plan.compute_j[place])
        self._active_j[place] += active_j
        self._log.row(
            "compute",
            int(self.clients[place]),
            until_s,
            start_s=begun_s,
            energy_j=float(cohort.idle_w[place]) * (until_s - begun_s) + active_j,
            extra_j=active_j,
            frequency_hz=float(plan.frequency_hz[place]),
            detail=detail,
            **cohort.about,
        )
        return computed_s

    def _message(
        self, place: int, message: SharedMessage, *, uplink: bool
    ) -> Generator[simpy.Event, Any, None]:
        cohort, client = self._cohort, int(self.clients[place])
        spent_j = yield from self._media.carry(
            client, cohort.place[place], message, uplink, cohort.about, self._mark
        )
        self._active_j[place] += spent_j
        if message.attempts:
            self._message_s[place] = self._clock.now_s - message.silent_s
