"""A message on its way over a shared medium, attempt by attempt."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import simpy

from simfl.protocols.clock import Clock
from simfl.system.sharing.base import Carried
from simfl.system.sharing.medium import Medium
from simfl.system.sharing.message import Gap, SharedMessage


class Crossing:
    """Sends `message` from now on (`process`), and knows at any moment what that has cost."""

    def __init__(self, clock: Clock, medium: Medium, message: SharedMessage) -> None:
        self.message = message
        self.start_s = clock.now_s
        self._clock = clock
        self._medium = medium
        self.begun = 0
        self._over = 0
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
            self._transfer = self._medium.transfer(message.sender, message.size_bytes)
            carried = yield self._transfer
            self._transfer = None
            self._active_j += carried.active_j
            self._over += 1
        for gap in message.gaps[message.attempts :]:
            yield from self._wait(gap)

    def _wait(self, gap: Gap) -> Generator[simpy.Event, Any, None]:
        self._pause = (self._clock.now_s, gap)
        yield self._clock.until(self._clock.now_s + gap[0])
        self._pause = None
        self._active_j += gap[1]

    def break_off(self) -> None:
        """Leave the medium; attempts `begun` so far are lost."""
        if self._transfer is not None and not self._transfer.triggered:
            self._medium.cancel(self._transfer)

    def spent(self) -> tuple[float, float]:
        """Joules so far: the sender's beyond its idle power, and the network's."""
        active_j, attempts = self._active_j, float(self._over)
        if self._pause is not None:
            since_s, (gap_s, gap_j) = self._pause
            active_j += gap_j * ((self._clock.now_s - since_s) / gap_s if gap_s else 1.0)
        if self._transfer is not None:
            transfer = self._transfer
            ended: Carried | None = transfer.value if transfer.triggered else None
            carried = ended or self._medium.so_far(transfer)
            active_j += carried.active_j
            attempts += carried.bits / (8.0 * self.message.size_bytes)
        return active_j, attempts * self.message.network_j
