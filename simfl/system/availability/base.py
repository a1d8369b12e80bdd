"""The interface of every availability model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.streams import Streams

MOST_CHANGES = 20_000
"""Of one client between two questions about it: beyond, nobody waits for the answer."""
MOST_PAUSES = 20_000
"""Of one round, likewise."""


class UnusableAvailability(ValueError):
    """An impossible answer of an availability model, or changes too frequent to follow."""


class Availability(ABC):
    """Determines which clients are available at a time, and for how long.

    Vectorised over clients and without state: what it says of a client at a time depends on
    neither who asks nor how often. Randomness comes from `streams`. What is computed on the way may
    be kept, as long as forgetting it would change no answer. `leaves` says that clients may go
    away.
    """

    leaves: ClassVar[bool] = True

    def begun(self, start_s: float, members: IntArray | None) -> Availability:
        """This model in a run that begins `start_s` seconds after midnight: time 0 is then.

        It is asked about `members` alone, ascending; None: about everybody. A model that goes by
        neither is itself, the default; any other one is a copy.
        """
        return self

    @abstractmethod
    def available(self, clients: IntArray, time_s: float, streams: Streams) -> BoolArray:
        """Whether each of `clients` can be dispatched at `time_s`."""

    @abstractmethod
    def next_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """When each of `clients`, not available at `time_s`, will be; inf for never."""

    def until_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """Until when each of `clients`, available at `time_s`, stays; inf for good, the default."""
        return np.full(clients.size, np.inf)


def place_among(members: IntArray | None, clients: IntArray) -> IntArray:
    """Of each client, which of `members` it is; None: everybody is."""
    return clients if members is None else np.searchsorted(members, clients)
