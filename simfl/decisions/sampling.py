"""The number of clients in a selection (count or share), and drawing clients by data size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from simfl.common.arrays import IntArray
from simfl.decisions.base import Selection
from simfl.decisions.views import ClientView


@dataclass(frozen=True)
class CountedSelection(Selection):
    """Base of selections of `count` clients, or of the `share` of those that may play."""

    count: Annotated[
        int | None,
        ">= 1",
        "clients selected per round (with over_selection fewer of them are merged; asynchronous"
        " and buffered draw one of them, uniformly)",
    ] = None
    share: Annotated[
        float | None, "> 0", "<= 1", "share of the clients to select, instead of count"
    ] = None

    def __post_init__(self) -> None:
        if self.count is None and self.share is None:
            raise ValueError("count: found nothing, accepted: count or share")
        if self.count is not None and self.share is not None:
            raise ValueError(f"share: found {self.share:g} beside count, accepted: one of them")

    def enough(self, players: int) -> int:
        """`count`, at most the number of players; with a share 1."""
        return min(players, self.count or 1)

    def wanted(self, players: int) -> int:
        """At least one, at most all of the `players`."""
        return min(players, self.count or max(1, round((self.share or 0.0) * players)))


def proportional_to_size(view: ClientView, count: int, rng: np.random.Generator) -> IntArray:
    """`count` clients, ascending, drawn without replacement with probabilities by data size.

    All clients with examples, if those are fewer.
    """
    weight = view.num_examples / view.num_examples.sum()
    drawn = min(count, int(np.count_nonzero(weight)))
    return np.sort(rng.choice(view.clients, size=drawn, replace=False, p=weight))
