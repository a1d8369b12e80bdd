"""Everybody takes part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from simfl.common.arrays import IntArray
from simfl.decisions.base import Selection
from simfl.decisions.views import ClientView


@dataclass(frozen=True)
class All(Selection):
    """Full participation: every client that may play, in every round."""

    looks_at: ClassVar[frozenset[str] | None] = frozenset()

    def decide(
        self, memory: Any, view: ClientView, rng: np.random.Generator
    ) -> tuple[Any, IntArray]:
        """All clients of the view."""
        return memory, view.clients
