"""The fastest edge server first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from simfl.decisions.base import Scheduling
from simfl.decisions.views import EdgeView


@dataclass(frozen=True)
class Greedy(Scheduling):
    """The idle edge server of least estimated latency (FedCure's baseline "Greedy").

    Ties go to the least recently dispatched, then to the lowest number; an edge server that has
    not been observed yet counts as the fastest.
    """

    def decide(
        self, memory: Any, view: EdgeView, rng: np.random.Generator
    ) -> tuple[Any, int, dict[str, Any]]:
        """The argmin of the estimated latency in seconds."""
        idle = np.flatnonzero(view.idle)
        latency = np.nan_to_num(view.estimated_latency_s[idle], nan=0.0)
        order = np.lexsort((idle, view.last_dispatch_round[idle], latency))
        return memory, int(idle[order[0]]), {"scores": (-latency).tolist()}
