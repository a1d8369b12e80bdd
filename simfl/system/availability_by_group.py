"""Availability of clients by group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.streams import Streams
from simfl.system.availability.base import Availability
from simfl.system.checked_availability import CheckedAvailability
from simfl.system.grouping import by_value


@dataclass(frozen=True, eq=False)
class AvailabilityByGroup(Availability):
    """`models[which[client]]` determines each client's availability, with its own draws.

    A group's model does not affect clients of other groups.
    """

    models: Sequence[Availability]
    which: IntArray

    @property
    def followers(self) -> list[tuple[Availability, IntArray]]:
        """Each model with its clients."""
        return [
            (one, np.flatnonzero(self.which == number)) for number, one in enumerate(self.models)
        ]

    @property
    def told_by(self) -> str:
        """The models that may have caused an error."""
        return " or ".join(dict.fromkeys(one.name for one in self._checked))

    @cached_property
    def _checked(self) -> list[CheckedAvailability]:
        return [CheckedAvailability(one) for one in self.models]

    def available(self, clients: IntArray, time_s: float, streams: Streams) -> BoolArray:
        """From each client's model."""
        there = np.empty(clients.size, dtype=np.bool_)
        for number, own in by_value(self.which[clients]):
            there[own] = self._checked[number].available(clients[own], time_s, streams)
        return there

    def next_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """From each client's model."""
        next_s = np.empty(clients.size)
        for number, own in by_value(self.which[clients]):
            next_s[own] = self._checked[number].next_s(clients[own], time_s, streams)
        return next_s

    def until_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """From each client's model."""
        until_s = np.empty(clients.size)
        for number, own in by_value(self.which[clients]):
            until_s[own] = self._checked[number].until_s(clients[own], time_s, streams)
        return until_s
