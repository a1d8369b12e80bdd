"""The decisions of a run: who takes part, with whom, when, how fast, and how much it counts.

Each is a pure function `decide(memory, view, rng) -> (memory, choice)` of what the decider has
observed; whatever it wants to remember between decisions it returns as its new memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.decisions.views import AssociationView, ClientView, EdgeView, FloatArray, IntArray


class Selection(ABC):
    """Chooses the clients of a round among those that may play."""

    def initial(self) -> Any:
        """Memory before the first decision."""
        return None

    @abstractmethod
    def decide(
        self, memory: Any, view: ClientView, rng: np.random.Generator
    ) -> tuple[Any, IntArray]:
        """The numbers (not positions) of distinct clients chosen out of `view.clients`."""


class Association(ABC):
    """Assigns every client to an edge server, before training."""

    @abstractmethod
    def decide(self, view: AssociationView, rng: np.random.Generator) -> IntArray:
        """The edge server of each client of the view, shape (clients,)."""


class Scheduling(ABC):
    """Picks the next edge server that the cloud dispatches."""

    def initial(self) -> Any:
        """Memory before the first decision."""
        return None

    @abstractmethod
    def decide(
        self, memory: Any, view: EdgeView, rng: np.random.Generator
    ) -> tuple[Any, int, dict[str, Any]]:
        """New memory, the edge server picked (one with `view.idle`), and details for the log."""


class Allocation(ABC):
    """Sets the CPU frequency of each client for its turn."""

    @abstractmethod
    def decide(self, view: ClientView, rng: np.random.Generator) -> FloatArray:
        """Hz per client of the view; devices clip it to their range and round it to a level."""


class Staleness(ABC):
    """How much an update counts that is late by some versions."""

    @abstractmethod
    def share(self, staleness: NDArray[np.int64] | int) -> Any:
        """Mixing share in [0, 1] of a model that is `staleness` versions old."""
