"""Clients that come and go with a fixed period, such as phones that charge at night."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.common.limits import SHORTEST_S
from simfl.streams import Streams
from simfl.system.availability.base import Availability


@dataclass(frozen=True)
class Periodic(Availability):
    """Available in the first `share` of every period; each client's phase is drawn uniformly."""

    period_s: Annotated[float, SHORTEST_S, "seconds from one return to the next"] = 86400.0
    share: Annotated[
        float, ">= 1e-6", "<= 1", "share of the period in which a client is available"
    ] = 0.3

    def available(self, clients: IntArray, time_s: float, streams: Streams) -> BoolArray:
        """Whether the client is in the first `share` of its period."""
        on: BoolArray = self._place(clients, time_s, streams) < self.share
        return on

    def next_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """The start of the client's next period."""
        place = self._place(clients, time_s, streams)
        return time_s + (1.0 - place) * self.period_s

    def until_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """The end of the first `share` of the client's period."""
        if self.share == 1:
            return np.full(clients.size, np.inf)
        place = self._place(clients, time_s, streams)
        return time_s + (self.share - place) * self.period_s

    def _place(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """Each client's position in its period, from 0 to 1."""
        place: FloatArray = (
            time_s / self.period_s + streams.uniform("availability.phase", clients)
        ) % 1.0
        return place
