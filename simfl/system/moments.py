"""The order of events at the same simulated time."""

from __future__ import annotations

from enum import IntEnum


class Moment(IntEnum):
    """The order of events at the same time (docs/architecture.md).

    SimPy orders simultaneous events by priority; its own are 0 and 1.
    """

    END = 1
    """Activities in progress end; absent clients return."""
    CHANNEL = 1_000
    """Shared channels remove flows that have ended, and share their rate anew."""
    INTERRUPTION = 500_000
    """Clients leave, crash and run empty, servers and links fail."""
    CLOSE = 600_000
    """Rounds close: their last update has arrived, or their deadline has passed."""
    VERSION = 700_000
    """Servers finish their work: the published version includes all updates that have arrived."""
    DECISION = 1_000_000
    """Servers accept what has arrived, and dispatch."""
    JOIN = 1_500_000
    """Shared channels accept the flows that begin, in canonical order."""
    END_OF_RUN = 2_000_000
