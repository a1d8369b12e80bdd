"""The number of available clients that a server waits for before it selects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from simfl.common.limits import SHORTEST_S
from simfl.protocols.deadline_policy import DeadlinePolicy


@dataclass(frozen=True)
class WaitFor:
    """The number of available, free clients that a server waits for before it selects among them.

    Like Flower's `wait_for` and FLASH's `min_selected`. A server with fewer clients, or whose
    algorithm lets fewer take part, waits for all of them. After the limit it continues with the
    available ones, at least one; such a round is starved.
    """

    clients: Annotated[
        int,
        ">= 1",
        "available, free clients that a server waits for before it selects; a selection has a"
        " choice if this exceeds its count",
    ] = 1
    limit_s: Annotated[
        float | None,
        SHORTEST_S,
        "seconds after which it continues with the available ones, at least one; null: no limit",
    ] = None

    def wanted(self, players: int) -> int:
        """The number of clients to wait for, out of those that may take part: at least one."""
        return max(1, min(self.clients, players))


ANYBODY = WaitFor()


def waits_for(wait_for: WaitFor | None, patience: DeadlinePolicy) -> WaitFor:
    """What a server waits for: by default as many clients as a round needs updates."""
    return wait_for or WaitFor(patience.least_updates or 1)
