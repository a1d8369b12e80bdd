"""The share of a waiting client's idle power that is charged to the training.

A device draws its idle power whether or not it is used for training. To whom these joules are
attributed is a question of accounting: it does not affect batteries, and clients at work (including
their radios' tails) are always charged in full.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.streams import Streams
from simfl.system.availability.base import MOST_CHANGES, Availability, UnusableAvailability
from simfl.system.checked_availability import CheckedAvailability
from simfl.system.failures import Failures

ClientIdle = Literal["always", "present", "rounds"]


class IdlePower:
    """The time for which waiting clients are not charged, by `mode`.

    `present`: while a client was absent or had crashed. `rounds`: all the time. (`always` means
    never, and does not use this class.) What is known about a client's wait is kept until its next
    wait.
    """

    def __init__(
        self,
        mode: ClientIdle,
        availability: Availability,
        failures: Failures,
        clients: int,
        streams: Streams,
    ) -> None:
        self._mode = mode
        self._availability = CheckedAvailability(availability)
        self._failures = failures
        self._streams = streams
        # The beginning of each wait; the beginning of the current presence or absence, and its end;
        # and the total seconds of the absences before it.
        self._from_s: FloatArray = np.full(clients, np.nan)
        self._since_s: FloatArray = np.zeros(clients)
        self._until_s: FloatArray = np.zeros(clients)
        self._there: BoolArray = np.ones(clients, dtype=bool)
        self._away_s: FloatArray = np.zeros(clients)

    def unpaid_s(self, clients: IntArray, from_s: FloatArray, until_s: FloatArray) -> FloatArray:
        """The seconds of each client's wait from `from_s` to `until_s` that are not charged.

        Raises UnusableAvailability for clients that come and go too often.
        """
        if self._mode == "rounds":
            return until_s - from_s
        anew = (self._from_s[clients] != from_s) | (self._since_s[clients] > until_s)
        self._begin(clients[anew], from_s[anew])
        behind = clients
        for _ in range(MOST_CHANGES):
            behind = clients[self._until_s[clients] < until_s]
            if not behind.size:
                break
            for time_s in np.unique(self._until_s[behind]).tolist():
                self._change(behind[self._until_s[behind] == time_s], time_s)
        else:
            raise UnusableAvailability(
                f"{self._availability.name}: client {behind[0]} comes and goes more than"
                f" {MOST_CHANGES:,} times while it waits"
            )
        away_s = np.where(self._there[clients], 0.0, until_s - self._since_s[clients])
        return self._away_s[clients] + away_s

    def _begin(self, clients: IntArray, from_s: FloatArray) -> None:
        """Clients begin to wait; whether they are present is queried afterwards."""
        self._from_s[clients] = self._since_s[clients] = self._until_s[clients] = from_s
        self._there[clients], self._away_s[clients] = True, 0.0

    def _change(self, clients: IntArray, time_s: float) -> None:
        """Clients come, go, crash or are repaired."""
        lasted_s = np.where(self._there[clients], 0.0, time_s - self._since_s[clients])
        self._away_s[clients] += lasted_s
        there = self._availability.available(clients, time_s, self._streams)
        until_s = np.empty(clients.size)
        for own, ask in ((there, self._availability.until_s), (~there, self._availability.next_s)):
            if own.any():
                until_s[own] = ask(clients[own], time_s, self._streams)
        working, changes_s = self._failures.at(clients, time_s)
        self._there[clients], self._since_s[clients] = there & working, time_s
        later_s = np.nextafter(time_s, np.inf)
        self._until_s[clients] = np.maximum(np.minimum(until_s, changes_s), later_s)
