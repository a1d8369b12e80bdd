"""Clients that are there, leave and crash at given times, for tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.streams import Streams
from simfl.system.availability.base import Availability
from simfl.system.battery import Batteries
from simfl.system.failures import Failures
from simfl.system.interruptions import Leaving
from simfl.system.presence import Presence


@dataclass(frozen=True)
class Intervals(Availability):
    """Everybody is there in the same intervals."""

    spans: tuple[tuple[float, float], ...]

    def available(self, clients: IntArray, time_s: float, streams: Streams) -> BoolArray:
        """Whether one of them is on."""
        there = any(start <= time_s < end for start, end in self.spans)
        return np.full(clients.size, there)

    def next_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """When the next one begins."""
        later = [start for start, _ in self.spans if start > time_s]
        return np.full(clients.size, min(later, default=np.inf))

    def until_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """When this one ends."""
        return np.full(clients.size, next(end for _, end in self.spans if end > time_s))


class Planned(Failures):
    """Machines that fail at given times, for 3 s."""

    def __init__(self, *fails_s: float) -> None:
        super().__init__(None, Streams(0), "")
        self._at_s = np.array(fails_s)

    @property
    def never(self) -> bool:
        """They do fail."""
        return False

    def at(self, machines: IntArray, time_s: float) -> tuple[BoolArray, FloatArray]:
        """Who works, and until when that is so."""
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
