"""Whether a run gets anywhere: what fails too often in a row ends it, instead of spinning on."""

from __future__ import annotations

from simfl.protocols.clock import Stalled
from simfl.protocols.servers import MOST_FAILURES


class StallGuard:
    """Counts rounds in vain, and crashes of edge servers without a new version."""

    def __init__(self) -> None:
        self._in_vain, self._crashes = 0, 0

    def round(self, updates: int) -> None:
        """A round brought so many updates; raises `Stalled` if none ever does."""
        self._in_vain = 0 if updates else self._in_vain + 1
        if self._in_vain >= MOST_FAILURES:
            raise Stalled(
                f"{MOST_FAILURES} rounds in a row brought no update: messages are lost, clients"
                " leave, crash or run empty before they are done, or fewer are selected than"
                " the algorithm aggregates; what are decisions.selection and the population's"
                " availability, message_loss, leaving, faults and batteries?"
            )

    def crash(self) -> None:
        """An edge server crashed; raises `Stalled` if that never ends."""
        self._crashes += 1
        if self._crashes >= MOST_FAILURES:
            raise Stalled(
                f"edge servers crashed {MOST_FAILURES} times without a new version; what are the"
                " population's faults.edge_servers?"
            )

    def version(self) -> None:
        """A new global version is out."""
        self._crashes = 0
