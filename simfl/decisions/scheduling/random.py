"""Edge servers are dispatched at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from simfl.decisions.base import Scheduling
from simfl.decisions.views import EdgeView


@dataclass(frozen=True)
class Random(Scheduling):
    """A uniformly drawn idle edge server."""

    def decide(
        self, memory: Any, view: EdgeView, rng: np.random.Generator
    ) -> tuple[Any, int, dict[str, Any]]:
        """Any idle edge server with equal probability."""
        return memory, int(rng.choice(np.flatnonzero(view.idle))), {}
