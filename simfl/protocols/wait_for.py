"""Whom a server waits for before it selects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from simfl.common.limits import SHORTEST_S


@dataclass(frozen=True)
class WaitFor:
    """How many clients are to be present and free before a server selects among them.

    As Flower's `wait_for` and FLASH's `min_selected`. A server that has fewer, or whose algorithm
    lets fewer take part, waits for all of those. Once the limit has passed it goes on with those
    that are there, at least one; such a round is starved.
    """

    clients: Annotated[
        int,
        ">= 1",
        "clients that a server waits for, present and free, before it selects; a selection has a"
        " choice where that is more than its count",
    ] = 1
    limit_s: Annotated[
        float | None,
        SHORTEST_S,
        "seconds after which it goes on with those that are there, at least one; null waits",
    ] = None

    def wanted(self, players: int) -> int:
        """How many of so many clients that may take part are waited for: at least one."""
        return max(1, min(self.clients, players))


ANYBODY = WaitFor()
