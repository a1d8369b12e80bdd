"""The interface of every availability model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.streams import Streams

MOST_CHANGES = 20_000
"""The most changes of one client between two queries; more would take too long."""
MOST_PAUSES = 20_000
"""The same limit for pauses in one round."""


class UnusableAvailability(ValueError):
    """An impossible answer of an availability model, or changes too frequent to follow."""


class Availability(ABC):
    """Determines which clients are available at a time, and for how long.

    Vectorised over clients and without state: the answer for a client and time does not depend on
    the other clients in a query, or on earlier queries. Randomness comes from `streams`.
    Intermediate results may be cached if the answers would be the same without the cache. `leaves`
    tells whether clients can become unavailable.
    """

    leaves: ClassVar[bool] = True

    def begun(self, start_s: float, members: IntArray | None) -> Availability:
        """This model in a run whose time 0 is `start_s` seconds after midnight.

        It is queried for `members` only, ascending; None: for all clients. A model that depends on
        neither returns itself, which is the default; other models return a copy.
        """
        return self

    @abstractmethod
    def available(self, clients: IntArray, time_s: float, streams: Streams) -> BoolArray:
        """Whether each of `clients` can be dispatched at `time_s`."""

    @abstractmethod
    def next_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """When each of `clients`, not available at `time_s`, becomes available; inf for never."""

    def until_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """When each of `clients`, available at `time_s`, leaves; inf (the default) for never."""
        return np.full(clients.size, np.inf)


def place_among(members: IntArray | None, clients: IntArray) -> IntArray:
    """Each client's position among `members`; None: all clients are members."""
    return clients if members is None else np.searchsorted(members, clients)
