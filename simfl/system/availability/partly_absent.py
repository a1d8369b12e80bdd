"""The base of models in which a share of the clients is away at certain hours."""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Annotated, Self

from simfl.common.arrays import BoolArray, IntArray
from simfl.streams import Streams
from simfl.system.availability.base import Availability, place_among
from simfl.system.topology import evenly_spread


@dataclass(frozen=True)
class PartlyAbsent(Availability):
    """Base of models in which a `share` of the clients leaves.

    The run begins `_start_s` seconds after midnight. The share refers to `_members`; None: to all
    clients.
    """

    share: Annotated[float, ">= 0", "<= 1", "share of the clients that leave"] = 0.5

    _start_s: float = field(init=False, repr=False, compare=False, default=0.0)
    _members: IntArray | None = field(init=False, repr=False, compare=False, default=None)

    def begun(self, start_s: float, members: IntArray | None) -> Self:
        """With the run's clock, for these clients."""
        one = copy.copy(self)
        object.__setattr__(one, "_start_s", start_s)
        object.__setattr__(one, "_members", members)
        return one

    @property
    @abstractmethod
    def first_s(self) -> float:
        """The simulated time of the first absence; 0 if the clients are absent at the start."""

    def who_leaves(self, clients: IntArray, streams: Streams) -> BoolArray:
        """Which clients are absent at those hours."""
        # Drawn by position in the group, so that groups are spread in the same way as all clients.
        place = place_among(self._members, clients)
        leaves: BoolArray = evenly_spread(streams, "availability.leaves", place) < self.share
        return leaves
