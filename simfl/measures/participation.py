"""How evenly clients take part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simfl.measures.base import Measure
from simfl.runfolder import LoadedRun


@dataclass(frozen=True)
class Participation(Measure):
    """Jain's index of turns per client (1 is even, 1/n is one client alone), and the extremes."""

    def compute(self, run: LoadedRun) -> dict[str, float]:
        """jain_index = (sum x)^2 / (n sum x^2), turns_min, turns_max."""
        turns = run.clients["participations"].to_numpy(dtype=float)
        squares = float((turns**2).sum())
        jain = float(turns.sum()) ** 2 / (turns.size * squares) if squares else float("nan")
        return {
            "jain_index": jain,
            "turns_min": float(np.min(turns)),
            "turns_max": float(np.max(turns)),
        }
