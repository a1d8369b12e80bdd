"""Updates that have arrived at a server, in an order that does not depend on arrival times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from simfl.algorithms.base import ServerState
from simfl.learning.job import Update
from simfl.learning.trainer import Future
from simfl.protocols.deliveries import Delivered

Lineage = tuple[tuple[str, int, float | None], ...]


@dataclass(frozen=True)
class Arrived:
    """One job's update at its server: its staleness in versions, and its share."""

    client: int
    future: Future
    staleness: int
    share: float | None

    def update(self, state: ServerState, statistics: Sequence[str]) -> Update:
        """The update; with a share, that share of its change, applied to `state`'s weights.

        `statistics` names the model's running statistics (`Update.rebased`).
        """
        update = self.future.result()
        if self.staleness != update.staleness:
            update = replace(update, staleness=self.staleness)
        if self.share is None:
            return update
        return update.rebased(state.weights, self.share, statistics)


def arrivals(
    version: int, delivered: Delivered, shares: Sequence[float] | None = None
) -> list[Arrived]:
    """The order in which a server at `version` takes updates: by client, oldest first."""
    staleness = (version - delivered.versions).tolist()
    scales = [None] * len(staleness) if shares is None else list(shares)
    columns = zip(delivered.clients.tolist(), delivered.futures, staleness, scales, strict=True)
    return sorted(
        [Arrived(*row) for row in columns],
        key=lambda one: (one.client, -one.staleness, one.future.key),
    )


def lineage(arrived: Sequence[Arrived]) -> Lineage:
    """The inputs of an aggregate besides the previous state, for its key."""
    return tuple((one.future.key, one.staleness, one.share) for one in arrived)
