"""Some clients leave once, for good or for a while."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.common.time_of_day import TIME_OF_DAY, next_day, shown
from simfl.streams import Streams
from simfl.system.availability.partly_absent import PartlyAbsent


@dataclass(frozen=True)
class Absence(PartlyAbsent):
    """A `share` of the clients is absent from `from_s` to `to_s` or for good, the others never.

    Seconds count from the midnight before the run, which is time 0 unless the population has a
    `start_time`.
    """

    from_s: Annotated[
        float, TIME_OF_DAY, ">= 0", "time of day when they leave, or seconds after midnight"
    ] = 43200.0
    to_s: Annotated[
        float | None,
        TIME_OF_DAY,
        "> 0",
        "time of day when they return, or seconds after midnight; null: never",
    ] = None

    def __post_init__(self) -> None:
        if self._back_s <= self.from_s:
            raise ValueError("to_s: must lie after from_s")

    def begun(self, start_s: float, members: IntArray | None) -> Self:
        """With the run's clock; ValueError if the absence ends before the run begins."""
        if self._back_s <= start_s:
            raise ValueError(
                f"to_s: the absence is over at {shown(self._back_s)}, before the run begins at"
                f" {shown(start_s)} (population.start_time); {next_day(self._back_s)}"
            )
        return super().begun(start_s, members)

    @property
    def first_s(self) -> float:
        """The only time they leave."""
        return max(self.from_s - self._start_s, 0.0)

    def available(self, clients: IntArray, time_s: float, streams: Streams) -> BoolArray:
        """All clients except those that are absent."""
        if not self.from_s <= time_s + self._start_s < self._back_s:
            return np.ones(clients.size, dtype=np.bool_)
        return ~self.who_leaves(clients, streams)

    def next_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """When the absent clients return."""
        return np.full(clients.size, self._back_s - self._start_s)

    def until_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """When the clients that leave do so."""
        ahead = time_s + self._start_s < self.from_s
        leaves = self.who_leaves(clients, streams) & ahead
        return np.where(leaves, self.from_s - self._start_s, np.inf)

    @property
    def _back_s(self) -> float:
        """In seconds after midnight; inf for never."""
        return np.inf if self.to_s is None else self.to_s
