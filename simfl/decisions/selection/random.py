"""A uniform random subset of the clients in each round (McMahan et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from simfl.decisions.base import Selection
from simfl.decisions.views import ClientView, IntArray


@dataclass(frozen=True)
class Random(Selection):
    """`count` clients, or the `share` of those that may play, drawn without replacement."""

    count: Annotated[int | None, ">= 1", "clients per round"] = None
    share: Annotated[float | None, "> 0", "<= 1", "share of the clients, instead of count"] = None

    def __post_init__(self) -> None:
        if (self.count is None) == (self.share is None):
            raise ValueError("count or share: give exactly one of them")

    def decide(
        self, memory: Any, view: ClientView, rng: np.random.Generator
    ) -> tuple[Any, IntArray]:
        """At most all clients of the view, at least one."""
        wanted = self.count or max(1, round((self.share or 0.0) * view.clients.size))
        chosen = rng.choice(view.clients, size=min(wanted, view.clients.size), replace=False)
        return memory, np.sort(chosen)
