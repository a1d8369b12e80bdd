"""Availability models that tests name in scenarios."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.streams import Streams
from simfl.system.availability.base import Availability


@dataclass(frozen=True)
class Gone(Availability):
    """Some clients are gone for good, the others there for good."""

    clients: tuple[int, ...]

    def available(self, clients: IntArray, time_s: float, streams: Streams) -> BoolArray:
        """Whether they are not gone."""
        there: BoolArray = ~np.isin(clients, self.clients)
        return there

    def next_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """Never."""
        return np.full(clients.size, np.inf)


@dataclass(frozen=True)
class Away(Availability):
    """Some clients are away from one moment to another; None: for good."""

    clients: tuple[int, ...]
    from_s: float
    back_s: float | None

    def available(self, clients: IntArray, time_s: float, streams: Streams) -> BoolArray:
        """Whether they are not away."""
        away: BoolArray = np.isin(clients, self.clients)
        return ~away | (not self.from_s <= time_s < self._back_s)

    def next_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """When they are back."""
        return np.full(clients.size, self._back_s)

    def until_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """When they leave."""
        leaves = np.isin(clients, self.clients) & (time_s < self.from_s)
        return np.where(leaves, self.from_s, np.inf)

    @property
    def _back_s(self) -> float:
        return np.inf if self.back_s is None else self.back_s
