"""A coalition of agents that trains without the others: what might block the model of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from simfl.common.arrays import IntArray
from simfl.decisions.base import Selection
from simfl.decisions.views import ClientView


@dataclass(frozen=True)
class Coalition(Selection):
    """The same clients in every round."""

    members: Annotated[tuple[int, ...], ">= 0", "client numbers"]

    def decide(
        self, memory: Any, view: ClientView, rng: np.random.Generator
    ) -> tuple[Any, IntArray]:
        """Those of the view's clients that are members."""
        return memory, np.intersect1d(view.clients, np.array(self.members, dtype=np.int64))
