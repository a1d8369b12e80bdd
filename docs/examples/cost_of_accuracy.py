"""A measure of one's own: what a target accuracy cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from simfl.plugins import LoadedRun, Measure


@dataclass(frozen=True)
class CostOfAccuracy(Measure):
    """Seconds, joules and bytes until the test accuracy was first met; NaN if it never was."""

    accuracy: Annotated[float, "> 0", "<= 1", "the target"] = 0.9

    def compute(self, run: LoadedRun) -> dict[str, float]:
        """`run` is what `simfl.load_run` gives."""
        return {
            "time_to_s": run.time_to(accuracy=self.accuracy),
            "energy_to_j": run.energy_to(accuracy=self.accuracy),
            "bytes_to": run.bytes_to(accuracy=self.accuracy),
        }
