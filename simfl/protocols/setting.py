"""The shared objects of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

from simfl.eventlog.log import EventLog
from simfl.protocols.clock import Clock
from simfl.streams import Streams
from simfl.system.world import World


@dataclass(frozen=True)
class Declared:
    """What the protocol says of itself: whether it takes stale updates.

    `is_own`: it is a user's own, and what it tells the run is compared with what happened.
    """

    takes_stale_updates: bool = True
    is_own: bool = False


@dataclass(frozen=True, eq=False)
class Setting:
    """The machines and their random draws, the clock, the log, and the protocol's properties."""

    world: World
    streams: Streams
    log: EventLog
    clock: Clock
    declared: Declared = field(default_factory=Declared)
