"""Clients with more data are selected more often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from simfl.common.arrays import IntArray
from simfl.decisions.sampling import CountedSelection, proportional_to_size
from simfl.decisions.views import ClientView


@dataclass(frozen=True)
class BySize(CountedSelection):
    """Clients drawn without replacement, with probabilities by their number of examples."""

    looks_at: ClassVar[frozenset[str] | None] = frozenset({"num_examples"})

    def decide(
        self, memory: Any, view: ClientView, rng: np.random.Generator
    ) -> tuple[Any, IntArray]:
        """A subset of the view's clients, ascending."""
        return memory, proportional_to_size(view, self.wanted(view.clients.size), rng)
