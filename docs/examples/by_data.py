"""A scheduling rule of one's own: edge servers are dispatched in proportion to their data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from simfl.plugins import EdgeView, Scheduling


@dataclass(frozen=True)
class ByData(Scheduling):
    """The idle edge server with the fewest dispatches per share of the data."""

    def decide(
        self, memory: Any, view: EdgeView, rng: np.random.Generator
    ) -> tuple[Any, int, dict[str, Any]]:
        """What the third value holds goes into the log's `detail`."""
        idle = np.flatnonzero(view.idle)
        score = view.data_share[idle] / view.dispatches[idle]  # all were dispatched at the start
        return memory, int(idle[score.argmax()]), {"scores": score.tolist()}
