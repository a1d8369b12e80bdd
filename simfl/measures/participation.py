"""How evenly clients take part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simfl.measures.base import Measure
from simfl.measures.inequality import jain_index
from simfl.runs.runfolder import LoadedRun


@dataclass(frozen=True)
class Participation(Measure):
    """Jain's index of updates per client (1 is even, 1/n is one client alone), and the extremes.

    Counts rounds that clients finished, without those whose update was dropped: it came too late,
    or its round was given up.
    """

    learned: ClassVar[bool] = False

    def compute(self, run: LoadedRun) -> dict[str, float]:
        """jain_index = (sum x)^2 / (n sum x^2), turns_min, turns_max."""
        updates = run.merged_updates
        return {
            "jain_index": jain_index(updates),
            "turns_min": float(np.min(updates)),
            "turns_max": float(np.max(updates)),
        }
