"""Which clients can begin a round: availability, crashes and batteries combined."""

from __future__ import annotations

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.streams import Streams
from simfl.system.availability.base import Availability
from simfl.system.battery import Batteries
from simfl.system.charge import Charge
from simfl.system.checked_availability import CheckedAvailability
from simfl.system.failures import Failures
from simfl.system.interruptions import Interruptions, Leaving


class Presence:
    """The combined availability, crashes and batteries (None: mains power) of clients.

    `idle_w` is each client's power while it does nothing. `charge` is that of the batteries;
    `interruptions` are those of clients at work.
    """

    def __init__(
        self,
        availability: Availability,
        leaving: Leaving,
        failures: Failures,
        batteries: Batteries | None,
        idle_w: FloatArray,
        streams: Streams,
    ) -> None:
        self._availability = CheckedAvailability(availability)
        self._failures = failures
        self.interruptions = Interruptions(self._availability, leaving, failures, streams)
        self.charge = None if batteries is None else Charge(batteries, idle_w)
        self.num_clients = idle_w.size
        self._streams = streams

    @property
    def told_by(self) -> str:
        """The availability model's name, for errors."""
        return self._availability.name

    def there(self, clients: IntArray, now_s: float) -> BoolArray:
        """Which clients could begin a round now if they were free."""
        there = self._availability.available(clients, now_s, self._streams)
        if not self._failures.never:
            there = there & self._failures.at(clients, now_s)[0]
        if self.charge is not None:
            there = there & self.charge.can_take_part(clients, now_s)
        return there

    def next_s(self, clients: IntArray, now_s: float) -> FloatArray:
        """A time before which none of `clients`, all absent now, will be present; inf: never.

        At that time a client may be absent for another reason: query again.
        """
        next_s = np.full(clients.size, now_s)
        away = ~self._availability.available(clients, now_s, self._streams)
        if away.any():
            next_s[away] = self._availability.next_s(clients[away], now_s, self._streams)
        if not self._failures.never:
            working, until_s = self._failures.at(clients, now_s)
            next_s = np.where(working, next_s, np.maximum(next_s, until_s))
        if self.charge is not None:
            next_s = np.maximum(next_s, self.charge.ready_s(clients, now_s))
        return next_s

    def anybody(self, now_s: float) -> bool:
        """Whether any client is present, or ever will be."""
        clients = np.arange(self.num_clients)
        there, next_s = self.there(clients, now_s), self.next_s(clients, now_s)
        return bool((there | np.isfinite(next_s)).any())

    def stays_empty(self, clients: IntArray, now_s: float) -> BoolArray:
        """Clients whose batteries are too low, and will not be charged enough within a year."""
        if self.charge is None:
            return np.zeros(clients.size, dtype=bool)
        never: BoolArray = np.isinf(self.charge.ready_s(clients, now_s))
        return never

    def level(self, clients: IntArray) -> FloatArray:
        """Charge divided by capacity at each client's last update; NaN for mains power."""
        if self.charge is None:
            return np.full(clients.size, np.nan)
        return self.charge.level(clients)
