"""A uniform random subset of the clients in each round (McMahan et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from simfl.common.arrays import IntArray
from simfl.decisions.sampling import CountedSelection
from simfl.decisions.views import ClientView


@dataclass(frozen=True)
class Random(CountedSelection):
    """`count` clients, or the `share` of those that may play, drawn without replacement."""

    looks_at: ClassVar[frozenset[str] | None] = frozenset()

    def decide(
        self, memory: Any, view: ClientView, rng: np.random.Generator
    ) -> tuple[Any, IntArray]:
        """At most all clients of the view, at least one."""
        count = self.wanted(view.clients.size)
        chosen = rng.choice(view.clients, size=count, replace=False)
        return memory, np.sort(chosen)
