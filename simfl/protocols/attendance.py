"""Clients in turns whose course nobody knows beforehand: when they go away, and are back."""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np
import simpy

from simfl.protocols.clock import Clock
from simfl.protocols.crossing import Bearer
from simfl.system.presence import CAUSES, Mishap, Presence

UNAVAILABLE = CAUSES.index("unavailable")


class Attendance(Bearer):
    """A client in a turn, in `stage` 0, 1 or 2 of it; `tell` books what befalls it.

    A turn is stopped by interrupting its process; the cause is an index into `CAUSES`.
    """

    def __init__(
        self, client: int, presence: Presence, clock: Clock, tell: Callable[[Mishap], None]
    ) -> None:
        self.stage = 0
        self._client = client
        self._presence = presence
        self._clock = clock
        self._tell = tell

    def leaves_s(self) -> float:
        """When its turn pauses next."""
        return self._presence.pauses_s(self._client, self._clock.now_s)

    def away(self) -> Generator[simpy.Event, None, None]:
        """Pause until it is back; who has left for good is stopped."""
        now_s = self._clock.now_s
        pause = self._presence.pause(self._client, now_s, self.stage)
        if not pause.goes_on:
            raise simpy.Interrupt(UNAVAILABLE)
        if pause.lasts_s > 0:
            self._tell(pause)
            yield self._clock.until(now_s + pause.lasts_s)

    def stretched(self, lasts_s: float, stops_s: float) -> tuple[float, float]:
        """When a computation that begins now ends, absences included, and when its client leaves.

        For good, that is; of pauses those before `stops_s` are booked.
        """
        now_s = self._clock.now_s
        stretched_s, leaves_s, pauses = self._presence.computing(self._client, lasts_s, now_s)
        for pause in pauses:
            if pause.time_s < min(leaves_s, stops_s):
                self._tell(pause)
        return now_s + stretched_s, leaves_s

    def stop(self, cause: int) -> None:
        """Its turn ends here."""
        self._tell(self._presence.mishap(self._client, cause, self._clock.now_s, self.stage))

    def stays_s(self, stops_s: float) -> float:
        """Until when it is there after its turn, if it is until `stops_s`."""
        return float(np.minimum(stops_s, self.leaves_s()))
