"""A message that is going to cross a shared medium."""

from __future__ import annotations

from dataclasses import dataclass

from simfl.system.sharing.base import Sender

Gap = tuple[float, float]
"""Seconds and joules between transfers: waiting for an answer, and waking up."""


@dataclass(frozen=True)
class SharedMessage:
    """What is known of a message before anybody knows how long it will take.

    It is sent `attempts` times (0: there is no message), each time after its entry in `gaps` and
    `latency`; where it `failed`, one more gap follows. `network_j` is what the network between the
    ends spends on one attempt.
    """

    sender: Sender
    size_bytes: int
    attempts: int
    failed: bool
    gaps: tuple[Gap, ...]
    latency: Gap
    network_j: float

    @property
    def silent_s(self) -> float:
        """How long before the end of it the last attempt was over."""
        return self.gaps[-1][0] if self.failed else 0.0

    @property
    def lost_bytes(self) -> int:
        """Bytes sent in vain."""
        return (self.attempts - (self.attempts > 0 and not self.failed)) * self.size_bytes

    @property
    def arrived_bytes(self) -> int:
        """Its size, or nothing if it never arrives."""
        return 0 if self.failed else self.size_bytes
