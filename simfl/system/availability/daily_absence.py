"""Some clients are away at the same hours of every day."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.common.limits import SHORTEST_S
from simfl.common.time_of_day import TIME_OF_DAY
from simfl.streams import Streams
from simfl.system.availability.partly_absent import PartlyAbsent


@dataclass(frozen=True)
class DailyAbsence(PartlyAbsent):
    """A `share` of the clients is absent from `from_s` to `to_s` of every period.

    If `to_s` is before `from_s`, they return in the next period: from "23:00" to "07:00".

    Periods begin at the midnight before the run; with a `start_time`, the run begins within a
    period.
    """

    from_s: Annotated[
        float, TIME_OF_DAY, ">= 0", "time of day when they leave, or seconds after midnight"
    ] = 43200.0
    to_s: Annotated[
        float, TIME_OF_DAY, "> 0", "time of day when they return, or seconds after midnight"
    ] = 46800.0
    period_s: Annotated[float, SHORTEST_S, "seconds after which the absence repeats"] = 86400.0

    def __post_init__(self) -> None:
        if self.from_s == self.to_s or max(self.from_s, self.to_s) > self.period_s:
            raise ValueError("to_s: must differ from from_s; both lie at most at period_s")

    @property
    def first_s(self) -> float:
        """In this period or the next."""
        away = self._is_away(self._hour_s(0.0))
        return 0.0 if away else (self.from_s - self._start_s) % self.period_s

    def available(self, clients: IntArray, time_s: float, streams: Streams) -> BoolArray:
        """All clients except those that are absent."""
        if not self._is_away(self._hour_s(time_s)):
            return np.ones(clients.size, dtype=np.bool_)
        return ~self.who_leaves(clients, streams)

    def next_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """When the absent clients return."""
        hour_s = self._hour_s(time_s)
        to_s = self.to_s if hour_s < self.to_s else self.to_s + self.period_s
        return np.full(clients.size, time_s + to_s - hour_s)

    def until_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """When the clients that leave do so next."""
        later_s = (self.from_s - self._start_s - time_s) % self.period_s
        return np.where(self.who_leaves(clients, streams), time_s + later_s, np.inf)

    def _is_away(self, hour_s: float) -> bool:
        """Whether this time of the period is one of absence."""
        if self.from_s < self.to_s:
            return self.from_s <= hour_s < self.to_s
        return not self.to_s <= hour_s < self.from_s

    def _hour_s(self, time_s: float) -> float:
        """The time since the beginning of the period."""
        return (time_s + self._start_s) % self.period_s
