"""Failures and repairs of clients, edge servers, and links to the cloud.

Each is an alternating renewal process with its own draws: for example, the rate of edge server
crashes does not affect clients' presence, fading or speed. With exponential times between failures
of mean MTBF, a task of t seconds is interrupted with probability 1 - exp(-t / MTBF).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.streams import Streams
from simfl.system.availability.sojourn import Sojourn
from simfl.system.availability.sojourn_cache import SojournCache


@dataclass(frozen=True)
class Outages:
    """Times between failures, and to repair."""

    works: Annotated[Sojourn, "distribution of the time from repair to failure"]
    broken: Annotated[Sojourn, "distribution of the time from failure to repair"]


@dataclass(frozen=True)
class Faults:
    """Failures; null: none. At time 0, the process is in its stationary state."""

    clients: Annotated[Outages | None, "a client that crashes loses its round"] = None
    edge_servers: Annotated[
        Outages | None, "an edge server that crashes loses what it has not sent to the cloud"
    ] = None
    cloud_link: Annotated[
        Outages | None, "between an edge server and the cloud; a message cut off is sent again"
    ] = None


class Failures:
    """When machines of one kind fail and work again; without `outages`, they never fail."""

    def __init__(self, outages: Outages | None, streams: Streams, component: str) -> None:
        self._sojourns: SojournCache | None = None
        if outages is not None:
            works, broken = outages.works, outages.broken
            self._sojourns = SojournCache(streams, works, broken, None, None, component)

    @property
    def never(self) -> bool:
        """Whether they never fail."""
        return self._sojourns is None

    def at(self, machines: IntArray, time_s: float) -> tuple[BoolArray, FloatArray]:
        """Whether each works at `time_s`, and when that changes next; inf: never."""
        if self._sojourns is None:
            return np.ones(machines.size, dtype=bool), np.full(machines.size, np.inf)
        return self._sojourns.at(machines, time_s)

    def fails_s(self, machine: int, time_s: float) -> float:
        """When a machine fails next; `time_s` if it does not work then; inf for never."""
        if self.never:
            return np.inf
        working, until_s = self.at(np.array([machine]), time_s)
        return float(until_s[0]) if working[0] else time_s

    def works_s(self, machine: int, time_s: float) -> float:
        """When a machine works again; `time_s` if it does."""
        if self.never:
            return time_s
        working, until_s = self.at(np.array([machine]), time_s)
        return time_s if working[0] else float(until_s[0])
