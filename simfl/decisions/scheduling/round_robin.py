"""Edge servers take turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from simfl.decisions.base import Scheduling
from simfl.decisions.views import EdgeView


@dataclass(frozen=True)
class RoundRobin(Scheduling):
    """The idle edge server that was dispatched longest ago, ties to the lowest number."""

    def decide(
        self, memory: Any, view: EdgeView, rng: np.random.Generator
    ) -> tuple[Any, int, dict[str, Any]]:
        """The least recently dispatched idle edge server."""
        idle = np.flatnonzero(view.idle)
        return memory, int(idle[view.last_dispatch_round[idle].argmin()]), {}
