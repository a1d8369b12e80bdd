"""A dispatched cohort: when uploads arrive, and which clients are waited for."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
import simpy

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.protocols.clock import Clock
from simfl.protocols.deadline_policy import DeadlinePolicy
from simfl.protocols.observations import ClientReports
from simfl.protocols.servers import Servers
from simfl.protocols.timeline import Timeline
from simfl.system.interruptions import Interruption
from simfl.system.moments import Moment
from simfl.system.server_id import ServerId

Late = Callable[[BoolArray], None]


class Dispatched:
    """Clients of one `server` whose rounds began together, and which of them are waited for.

    `ends_s` (clients,): when each reports or its round is broken off; inf: not known yet, as over
    shared channels. The server gives up clients whose rounds are broken off `noticed_after_s`
    later, except those that `tell` (clients,) it themselves.
    """

    def __init__(
        self,
        timeline: Timeline,
        idle_w: FloatArray,
        ends_s: FloatArray,
        noticed_after_s: float,
        tell: BoolArray,
        servers: Servers,
        server: ServerId,
        clock: Clock,
    ) -> None:
        self.begun_s = clock.now_s
        self._timeline = timeline
        self._idle_w = idle_w
        self._noticed_after_s, self._silent = noticed_after_s, ~tell
        self._ends_s = self._noticed(np.arange(ends_s.size), ends_s)
        self._servers = servers
        self._server = server
        self._clock = clock
        self._changed = clock.env.event()
        self._tell: Late | None = None
        self._known: FloatArray | None = timeline.arrives_s if self.over else None

    @property
    def over(self) -> bool:
        """Whether all clients' ends are known."""
        return bool(np.isfinite(self._ends_s).all())

    @property
    def arrives_s(self) -> FloatArray:
        """When each upload arrives; inf: never, or not yet."""
        return self._timeline.arrives_s if self._known is None else self._known

    @property
    def spent_j(self) -> FloatArray:
        """Joules above idle power of each round so far; of walked ones: of all of it."""
        return self._timeline.spent_j

    def closed(self, policy: DeadlinePolicy, least: int) -> Generator[simpy.Event, Any, float]:
        """Waits until `policy` closes the round; returns that time.

        It stays open until `least` updates have arrived, if that many will. Raises `Crashed` if the
        edge server fails meanwhile.
        """
        while True:
            closes_s = policy.closes_s(
                self.begun_s, self.arrives_s, self._ends_s, least, self._timeline.ends.away_s
            )
            if closes_s <= self._clock.now_s:
                return self._clock.now_s
            yield from self._until(closes_s)

    def finished(self) -> Generator[simpy.Event, Any, None]:
        """Waits until all clients have reported or given up; raises `Crashed` like `closed`."""
        while self._clock.now_s < self._ends_s.max():
            yield from self._until(float(self._ends_s.max()))

    def reports(self, which: BoolArray) -> ClientReports:
        """The reports of the masked clients, whose uploads arrive."""
        arrives_s = self.arrives_s[which]
        took_s = arrives_s - self.begun_s
        active_j = self.spent_j[which]
        energy_j = self._idle_w[which] * took_s + active_j
        return ClientReports(self._timeline.actors[which], arrives_s, took_s, energy_j, active_j)

    def follow(self, closed_s: float, tell: Late) -> None:
        """The round has closed; `tell(mask)` is called for clients whose uploads arrive later."""
        if not self.over:
            self._tell = tell
        late = (self.arrives_s > closed_s) & np.isfinite(self.arrives_s)
        if late.any():
            tell(late)

    def ends(self, place: int, now_s: float) -> None:
        """A client reports now, or its round is broken off."""
        self._ends_s[place] = self._noticed(np.array([place]), np.array([now_s]))[0]

    def given_up(self, time_s: float) -> bool:
        """Whether the server gave a client up at this time that did not tell it."""
        gone = np.isinf(self.arrives_s) & self._silent
        return bool((gone & (self._ends_s == time_s)).any())

    def _noticed(self, places: IntArray, ends_s: FloatArray) -> FloatArray:
        """When the server knows of the ends of these rounds."""
        gone = np.isinf(self._timeline.arrives_s[places]) & self._silent[places]
        known_s: FloatArray = ends_s + np.where(gone, self._noticed_after_s, 0.0)
        return known_s

    def tell(self, place: int) -> None:
        """Informs the waiters or, once the round has closed, its followers."""
        self._change()
        if self._tell is not None and np.isfinite(self.arrives_s[place]):
            self._tell(np.arange(self._ends_s.size) == place)
        if self.over:
            # It refers to the updates, which count as withdrawn once nothing refers to them.
            self._tell = None

    def pauses(self, pauses: Sequence[Interruption]) -> None:
        """Clients leave: after its deadline a server waits only for those still available."""
        for one in pauses:
            self._clock.until(one.time_s).callbacks.append(lambda _: self._change())

    def _change(self) -> None:
        changed, self._changed = self._changed, self._clock.env.event()
        changed.succeed()

    def _until(self, time_s: float) -> Generator[simpy.Event, Any, None]:
        """Waits until a time, or until anything has changed."""
        if self.over:
            yield from self._servers.until(self._server, time_s, Moment.CLOSE)
            return
        alarm = [self._clock.until(time_s)] if time_s < np.inf else []
        yield self._clock.env.any_of([self._changed, self._servers.failure(self._server), *alarm])
        yield self._clock.now(Moment.CLOSE)
        self._servers.check(self._server)
