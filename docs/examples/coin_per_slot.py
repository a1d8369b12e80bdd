"""An availability of one's own: clients come and go at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from simfl.plugins import Availability, BoolArray, FloatArray, IntArray, Streams


@dataclass(frozen=True)
class CoinPerSlot(Availability):
    """Time is cut into slots; in each one a client is there with `probability`."""

    slot_s: Annotated[float, "> 0", "length of a slot"] = 60.0
    probability: Annotated[float, "> 0.01", "<= 1", "of being there during a slot"] = 0.5

    def available(self, clients: IntArray, time_s: float, streams: Streams) -> BoolArray:
        """A draw is addressed by client and slot, so asking twice gives the same answer."""
        return streams.uniform("coin_per_slot", clients, self._slot(time_s)) < self.probability

    def next_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """The start of the first later slot in which each client is there."""
        start_s = np.full(clients.size, np.inf)
        slot = self._slot(time_s)
        while np.isinf(start_s).any():
            slot += 1
            there = self.available(clients, slot * self.slot_s, streams)
            start_s[there & np.isinf(start_s)] = slot * self.slot_s
        return start_s

    def _slot(self, time_s: float) -> int:
        return int(time_s / self.slot_s + 1e-9)  # a slot's start is its own, rounding or not
