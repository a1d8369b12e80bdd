"""Availability models that break their contract, which tests name in scenarios."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.streams import Streams
from simfl.system.availability.base import Availability


@dataclass(frozen=True)
class Promises(Availability):
    """Nobody is ever there, and everybody about to come."""

    ahead_s: float = 0.0

    def available(self, clients: IntArray, time_s: float, streams: Streams) -> BoolArray:
        """Nobody."""
        return np.zeros(clients.size, dtype=np.bool_)

    def next_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """Now, or soon."""
        return np.full(clients.size, time_s + self.ahead_s)


@dataclass(frozen=True)
class Flickers(Availability):
    """Everybody is there, and leaves at once."""

    def available(self, clients: IntArray, time_s: float, streams: Streams) -> BoolArray:
        """Everybody."""
        return np.ones(clients.size, dtype=np.bool_)

    def next_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """Now."""
        return np.full(clients.size, time_s)

    def until_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """Now."""
        return np.full(clients.size, time_s)


@dataclass(frozen=True)
class Says(Availability):
    """Gives one answer for everybody."""

    there: float = 0.0
    time: str = "nan"

    def available(self, clients: IntArray, time_s: float, streams: Streams) -> BoolArray:
        """A truth, unless `there` is neither 0 nor 1."""
        truth = bool if self.there in (0.0, 1.0) else float
        return np.full(clients.size, self.there, dtype=truth)

    def next_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """`time`, whatever the moment."""
        return np.full(clients.size, float(self.time))

    def until_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """`time`, whatever the moment."""
        return np.full(clients.size, float(self.time))
