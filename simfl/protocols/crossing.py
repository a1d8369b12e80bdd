"""A message on its way over a shared medium, attempt by attempt."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import simpy

from simfl.protocols.clock import Clock
from simfl.system.sharing.base import Carried
from simfl.system.sharing.medium import Medium
from simfl.system.sharing.message import Gap, SharedMessage


class Bearer:
    """Whose message it is, as far as that matters on its way.

    This one is always there, and its power comes out of the wall.
    """

    def leaves_s(self) -> float:
        """When it goes away next, after now; inf: never."""
        return math.inf

    def away(self) -> Generator[simpy.Event, Any, None]:
        """It has just gone away: wait until it is back; `simpy.Interrupt` if it never is."""
        yield from ()

    def draws(self, active_w: float) -> None:
        """From now on it draws so much beyond idle power; the medium says what a transfer takes."""

    def done(self) -> None:
        """It has nothing under way any more."""

    def unmet_j(self) -> float:
        """Joules that it has not given of what the message took so far."""
        return 0.0


class Crossing:
    """Sends `message` from now on (`process`), and knows at any moment what that has cost.

    While its bearer is away nothing is sent and nothing waited for: a transfer leaves the medium,
    and comes again with the bytes that are left, as a new one.
    """

    def __init__(
        self, clock: Clock, medium: Medium, message: SharedMessage, bearer: Bearer
    ) -> None:
        self.message = message
        self.start_s = clock.now_s
        self._clock = clock
        self._medium = medium
        self._bearer = bearer
        self.begun = 0
        self._over = 0
        self._sent_bits = 0.0
        self._active_j = 0.0
        self._pause: tuple[float, Gap] | None = None
        self._transfer: simpy.Event | None = None

    def process(self) -> Generator[simpy.Event, Any, None]:
        """Every attempt: its gap and its latency, then a transfer of its own."""
        message = self.message
        latency_s, latency_j = message.latency
        for gap_s, gap_j in message.gaps[: message.attempts]:
            self.begun += 1
            yield from self._wait((gap_s + latency_s, gap_j + latency_j))
            yield from self._send()
            self._over += 1
        for gap in message.gaps[message.attempts :]:
            yield from self._wait(gap)

    def _send(self) -> Generator[simpy.Event, Any, None]:
        """One attempt, in as many pieces as absences make of it."""
        size_bits = 8.0 * self.message.size_bytes
        while True:
            self._bearer.draws(0.0)
            left_bytes = max(size_bits - self._sent_bits, 0.0) / 8.0
            transfer = self._transfer = self._medium.transfer(self.message.sender, left_bytes)
            leaves_s = self._bearer.leaves_s()
            if leaves_s < math.inf:
                yield self._clock.env.any_of([transfer, self._clock.until(leaves_s)])
                if not transfer.triggered:
                    yield self._clock.gathered()
            there = leaves_s == math.inf or transfer.triggered
            carried = (yield transfer) if there else self._medium.cancel(transfer)
            self._transfer = None
            self._active_j += carried.active_j
            if there:
                self._sent_bits = 0.0
                return
            self._sent_bits += carried.bits
            yield from self._absence()

    def _wait(self, gap: Gap) -> Generator[simpy.Event, Any, None]:
        left_s, left_j = gap
        while True:
            begun_s, leaves_s = self._clock.now_s, self._bearer.leaves_s()
            self._pause = (begun_s, (left_s, left_j))
            self._bearer.draws(left_j / left_s if left_s else 0.0)
            yield self._clock.until(min(begun_s + left_s, leaves_s))
            self._pause = None
            if begun_s + left_s <= leaves_s:
                self._active_j += left_j
                return
            share = min((leaves_s - begun_s) / left_s, 1.0)
            self._active_j += share * left_j
            left_s, left_j = (1.0 - share) * left_s, (1.0 - share) * left_j
            yield from self._absence()

    def _absence(self) -> Generator[simpy.Event, Any, None]:
        self._bearer.draws(0.0)
        yield from self._bearer.away()

    def break_off(self) -> None:
        """Leave the medium; attempts `begun` so far are lost."""
        if self._transfer is not None and not self._transfer.triggered:
            self._medium.cancel(self._transfer)

    def spent(self) -> tuple[float, float]:
        """Joules so far: the sender's beyond its idle power, and the network's."""
        active_j, bits = self._active_j, self._sent_bits
        if self._pause is not None:
            since_s, (gap_s, gap_j) = self._pause
            active_j += gap_j * ((self._clock.now_s - since_s) / gap_s if gap_s else 1.0)
        if self._transfer is not None:
            transfer = self._transfer
            ended: Carried | None = transfer.value if transfer.triggered else None
            carried = ended or self._medium.so_far(transfer)
            active_j += carried.active_j
            bits += carried.bits
        attempts = self._over + bits / (8.0 * self.message.size_bytes)
        return active_j - self._bearer.unmet_j(), attempts * self.message.network_j
