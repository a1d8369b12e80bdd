"""Clients that are always available."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.streams import Streams
from simfl.system.availability.base import Availability


@dataclass(frozen=True)
class Always(Availability):
    """Every client is always available."""

    leaves: ClassVar[bool] = False

    def available(self, clients: IntArray, time_s: float, streams: Streams) -> BoolArray:
        """Always true."""
        return np.ones(clients.size, dtype=np.bool_)

    def next_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """The current time."""
        return np.full(clients.size, time_s)
