"""Detects runs without progress: ends a run after too many failures in a row."""

from __future__ import annotations

from simfl.protocols.clock import Stalled
from simfl.protocols.servers import MOST_FAILURES


class StallGuard:
    """Counts rounds without an update, and crashes of edge servers without a new version."""

    def __init__(self) -> None:
        self._in_vain, self._crashes = 0, 0

    def round(self, updates: int) -> None:
        """Counts a round with this many updates; raises `Stalled` after too many without any."""
        self._in_vain = 0 if updates else self._in_vain + 1
        if self._in_vain >= MOST_FAILURES:
            raise Stalled(
                f"{MOST_FAILURES} rounds in a row brought no update: messages are lost, clients"
                " leave, crash, run out of battery or miss the deadline before they finish, or"
                " fewer are selected than the algorithm needs, or arrive than"
                " patience.least_updates; check decisions.selection, the protocol's patience and"
                " the population's availability, message_loss, leaving, faults and batteries"
            )

    def crash(self) -> None:
        """Counts a crash of an edge server; raises `Stalled` after too many."""
        self._crashes += 1
        if self._crashes >= MOST_FAILURES:
            raise Stalled(
                f"edge servers crashed {MOST_FAILURES} times without a new version; check the"
                " population's faults.edge_servers"
            )

    def version(self) -> None:
        """A new global version is out."""
        self._crashes = 0
