"""The share of a waiting client's idle power that is charged to the training.

A device draws its idle power whether or not somebody trains on it. Whose joules these are is a
question of accounting: they say nothing about what its battery gives, and a client at work (its
radio's tail included) is always charged in full.
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
    """Says for how long clients waited at nobody's cost, by `mode`.

    `present`: while a client was away or had crashed. `rounds`: all the while. (`always` is never,
    and needs nobody to say so.) What was found out about a client's wait is kept until its next.
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
        # Since when each waits; since when it has been there, or away, and until when; and the
        # seconds of the absences before that.
        self._from_s: FloatArray = np.full(clients, np.nan)
        self._since_s: FloatArray = np.zeros(clients)
        self._until_s: FloatArray = np.zeros(clients)
        self._there: BoolArray = np.ones(clients, dtype=bool)
        self._away_s: FloatArray = np.zeros(clients)

    def unpaid_s(self, clients: IntArray, from_s: FloatArray, until_s: FloatArray) -> FloatArray:
        """Of what each client waited from `from_s` to `until_s`, the seconds that cost nothing.

        Raises UnusableAvailability for clients that come and go too often to be followed.
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
        """They wait from then on; where they are is asked at once."""
        self._from_s[clients] = self._since_s[clients] = self._until_s[clients] = from_s
        self._there[clients], self._away_s[clients] = True, 0.0

    def _change(self, clients: IntArray, time_s: float) -> None:
        """They come, go, crash or are repaired."""
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
