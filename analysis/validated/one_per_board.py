"""The selection of the testbed's experiments with more clients than boards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from simfl.plugins import ClientView, Selection


@dataclass(frozen=True)
class OnePerBoard(Selection):
    """A random client of each board; boards hold equally many consecutive clients."""

    boards: Annotated[int, ">= 1", "boards that the clients are on"] = 10

    def decide(
        self, memory: Any, view: ClientView, rng: np.random.Generator
    ) -> tuple[Any, np.ndarray]:
        """One of each part of the view's clients."""
        parts = np.array_split(view.clients, self.boards)
        return memory, np.array([rng.choice(part) for part in parts])
