"""Clients in turns whose course nobody knows beforehand: when they go away, and are back."""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np
import simpy

from simfl.protocols.clock import Clock
from simfl.protocols.crossing import Bearer
from simfl.protocols.drains import Drains
from simfl.system.availability.base import MOST_PAUSES
from simfl.system.presence import CAUSES, Mishap, Presence

UNAVAILABLE, EMPTY = CAUSES.index("unavailable"), CAUSES.index("battery_empty")


class Attendance(Bearer):
    """A client in a turn, in `stage` 0, 1 or 2 of it; `tell` books what befalls it.

    A turn is stopped by interrupting its process; the cause is an index into `CAUSES`. `drains` are
    those of batteries; None: mains power.
    """

    def __init__(
        self,
        client: int,
        presence: Presence,
        drains: Drains | None,
        clock: Clock,
        tell: Callable[[Mishap], None],
    ) -> None:
        self.stage = 0
        self._departures = 0
        self._client = client
        self._presence = presence
        self._drains = drains
        self._clock = clock
        self._tell = tell

    def begin(self, empty: Callable[[], None]) -> None:
        """Its turn begins; `empty` is called when its battery is, but for what `lasts_s` told."""
        if self._drains is not None:
            self._drains.begin(self._client, empty)

    def leaves_s(self) -> float:
        """When its turn pauses next."""
        return self._presence.pauses_s(self._client, self._clock.now_s)

    def away(self) -> Generator[simpy.Event, None, None]:
        """Pause until it is back; who has left for good is stopped."""
        now_s = self._clock.now_s
        pause = self._presence.pause(self._client, now_s, self.stage)
        if not pause.goes_on:
            raise simpy.Interrupt(UNAVAILABLE)
        self._departures += 1
        if self._departures > MOST_PAUSES:
            raise self._presence.restless(self._client, now_s)
        if pause.lasts_s > 0:
            self._tell(pause)
            yield self._clock.until(now_s + pause.lasts_s)

    def draws(self, active_w: float) -> None:
        """Of its battery."""
        if self._drains is not None:
            self._drains.draw(self._client, active_w)

    def stretched(self, lasts_s: float) -> tuple[float, float, list[Mishap]]:
        """When a computation that begins now ends, and when its client leaves for good (inf).

        Its pauses are in it, and come with it.
        """
        now_s = self._clock.now_s
        stretched_s, leaves_s, pauses = self._presence.computing(self._client, lasts_s, now_s)
        return now_s + stretched_s, leaves_s, pauses

    def lasts_s(self, computed_s: float, active_j: float) -> float:
        """When the battery is empty that gives so much until `computed_s`, evenly; inf: later."""
        if self._drains is None:
            return np.inf
        duration_s = computed_s - self._clock.now_s
        active_w = active_j / duration_s if duration_s else 0.0
        return self._drains.compute(self._client, active_w, computed_s)

    def stop(self, cause: int) -> None:
        """Its turn ends here."""
        now_s = self._clock.now_s
        if cause == EMPTY and self._drains is not None:
            self._drains.run_empty(self._client)
        self._tell(self._presence.mishap(self._client, cause, now_s, self.stage))

    def done(self) -> None:
        """It is over: from now on the client rests."""
        if self._drains is not None:
            self._drains.end(self._client)

    def stays_s(self, stops_s: float) -> float:
        """Until when it is there after its turn, if it is until `stops_s`."""
        return float(np.minimum(stops_s, self.leaves_s()))
