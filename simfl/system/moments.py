"""The order of events at the same simulated time."""

from __future__ import annotations

from enum import IntEnum


class Moment(IntEnum):
    """In which order things happen that happen at the same time (docs/architecture.md).

    SimPy orders simultaneous events by priority; its own are 0 and 1.
    """

    END = 1
    """What was under way comes to its end; who was away is back."""
    CHANNEL = 1_000
    """Shared channels let go of flows that have ended, and share their rate out anew."""
    INTERRUPTION = 500_000
    """Clients leave, crash and run empty, servers and links fail."""
    CLOSE = 600_000
    """Rounds close: their last update has arrived, or their deadline."""
    VERSION = 700_000
    """Servers have done their work: what they publish counts all that has arrived."""
    DECISION = 1_000_000
    """Servers take up what has arrived, and dispatch."""
    JOIN = 1_500_000
    """Shared channels take up the flows that begin, in canonical order."""
    END_OF_RUN = 2_000_000
