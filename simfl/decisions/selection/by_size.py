"""Clients with more data are selected more often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from simfl.decisions.sampling import CountedSelection
from simfl.decisions.views import ClientView, IntArray


@dataclass(frozen=True)
class BySize(CountedSelection):
    """Drawn without replacement, each draw in proportion to the number of examples."""

    def decide(
        self, memory: Any, view: ClientView, rng: np.random.Generator
    ) -> tuple[Any, IntArray]:
        """A subset of the view's clients, ascending."""
        weight = view.num_examples / view.num_examples.sum()
        count = min(self.wanted(view.clients.size), int(np.count_nonzero(weight)))
        chosen = rng.choice(view.clients, size=count, replace=False, p=weight)
        return memory, np.sort(chosen)
