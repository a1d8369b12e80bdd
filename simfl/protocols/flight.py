"""Turns that begin together: when their uploads arrive, and what is known of that."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import simpy

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.protocols.course import Course
from simfl.protocols.observations import Reports
from simfl.protocols.patience import Patience

Late = Callable[[BoolArray], None]


class Flight(ABC):
    """The turns of a cohort. `arrives_s` is inf where an upload never arrives, or has not yet."""

    clients: IntArray
    arrives_s: FloatArray
    begun_s: float
    idle_w: FloatArray

    @abstractmethod
    def closed(self, patience: Patience, least: int) -> Generator[simpy.Event, Any, float]:
        """Waits as long as `patience` does, but for `least` updates if so many come; until when."""

    @abstractmethod
    def finished(self) -> Generator[simpy.Event, Any, None]:
        """Waits until every client has reported or given up."""

    @abstractmethod
    def spent_j(self) -> FloatArray:
        """Joules of each turn beyond idle power, as far as they are known."""

    def reports(self, which: BoolArray) -> Reports:
        """What servers observe of those of a mask, whose uploads arrive."""
        arrives_s = self.arrives_s[which]
        took_s = arrives_s - self.begun_s
        energy_j = self.idle_w[which] * took_s + self.spent_j()[which]
        return Reports(self.clients[which], arrives_s, took_s, energy_j)

    @abstractmethod
    def follow(self, closed_s: float, tell: Late) -> None:
        """The round has closed: tell of those that arrive later, as soon as that is known."""


class Booked(Flight):
    """Turns whose whole course is known when they begin; `wait` is how their server waits."""

    def __init__(
        self,
        clients: IntArray,
        course: Course,
        idle_w: FloatArray,
        active_j: FloatArray,
        begun_s: float,
        wait: Callable[[float], Generator[simpy.Event, Any, None]],
    ) -> None:
        self.clients = clients
        self.course = course
        self.arrives_s = course.arrives_s
        self.begun_s, self.idle_w = begun_s, idle_w
        self._active_j = active_j
        self._wait = wait

    def closed(self, patience: Patience, least: int) -> Generator[simpy.Event, Any, float]:
        """One appointment."""
        course = self.course
        closes_s = patience.closes_s(
            self.begun_s, self.arrives_s, course.ends_s, least, course.away_s
        )
        yield from self._wait(closes_s)
        return closes_s

    def finished(self) -> Generator[simpy.Event, Any, None]:
        """One appointment."""
        yield from self._wait(float(self.course.ends_s.max()))

    def spent_j(self) -> FloatArray:
        """By the end of each turn."""
        return self._active_j

    def follow(self, closed_s: float, tell: Late) -> None:
        """Known at once."""
        late = (self.arrives_s > closed_s) & np.isfinite(self.arrives_s)
        if late.any():
            tell(late)
