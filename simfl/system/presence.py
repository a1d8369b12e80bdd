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
    """Availability, crashes and batteries of clients, as one; `batteries` None is mains power.

    `idle_w` is what each client draws while it does nothing. `charge` is that of the batteries;
    `interruptions` are what befalls those at work.
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
        """The class that says who is available."""
        return self._availability.name

    def there(self, clients: IntArray, now_s: float) -> BoolArray:
        """Which clients could begin a round now, were they free."""
        there = self._availability.available(clients, now_s, self._streams)
        if not self._failures.never:
            there = there & self._failures.at(clients, now_s)[0]
        if self.charge is not None:
            there = there & self.charge.can_take_part(clients, now_s)
        return there

    def next_s(self, clients: IntArray, now_s: float) -> FloatArray:
        """Before when none of `clients`, not there now, will be; inf: never.

        What keeps it away may change then for another reason: ask again.
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
        """Whether any client at all is there, or ever will be."""
        clients = np.arange(self.num_clients)
        there, next_s = self.there(clients, now_s), self.next_s(clients, now_s)
        return bool((there | np.isfinite(next_s)).any())

    def empty_for_good(self, clients: IntArray, now_s: float) -> BoolArray:
        """Whose battery is too low to take part, and will not be charged enough within a year."""
        if self.charge is None:
            return np.zeros(clients.size, dtype=bool)
        never: BoolArray = np.isinf(self.charge.ready_s(clients, now_s))
        return never

    def level(self, clients: IntArray) -> FloatArray:
        """Charge over capacity when each was last looked at; NaN for mains power."""
        if self.charge is None:
            return np.full(clients.size, np.nan)
        return self.charge.level(clients)
