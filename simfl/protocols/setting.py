"""The shared objects of a run."""

from __future__ import annotations

from dataclasses import dataclass

from simfl.eventlog.log import EventLog
from simfl.protocols.clock import Clock
from simfl.streams import Streams
from simfl.system.world import World


@dataclass(frozen=True, eq=False)
class Setting:
    """The machines and their random draws, the clock, and the log of what happens."""

    world: World
    streams: Streams
    log: EventLog
    clock: Clock
