"""Availability models that tests name in scenarios."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.streams import FloatArray, Streams
from simfl.system.availability.base import Availability, IntArray


@dataclass(frozen=True)
class Gone(Availability):
    """Some clients are gone for good, the others there for good."""

    clients: tuple[int, ...]

    def available(self, clients: IntArray, time_s: float, streams: Streams) -> NDArray[np.bool_]:
        """Whether they are not gone."""
        there: NDArray[np.bool_] = ~np.isin(clients, self.clients)
        return there

    def next_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """Never."""
        return np.full(clients.size, np.inf)
