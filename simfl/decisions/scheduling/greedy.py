"""The fastest edge server first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from simfl.decisions.base import Scheduling
from simfl.decisions.ranking import highest, of_idle
from simfl.decisions.views import EdgeView


@dataclass(frozen=True)
class Greedy(Scheduling):
    """The idle edge server with the least estimated latency (FedCure's baseline "Greedy").

    Ties go to the least recently dispatched, then to the lowest number; an unknown latency counts
    as 0.
    """

    def decide(
        self, memory: Any, view: EdgeView, rng: np.random.Generator
    ) -> tuple[Any, int, dict[str, Any]]:
        """The argmin of the estimated latency in seconds."""
        scores = -np.nan_to_num(view.estimated_latency_s, nan=0.0)
        return memory, highest(view, scores), {"scores": of_idle(view, scores)}
