"""Oscillations of a game's training accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.measures.base import Measure
from simfl.runs.runfolder import LoadedRun


@dataclass(frozen=True)
class Oscillation(Measure):
    """Amplitude and frequency of the oscillations of best responses.

    Smooth best responses of FL Games (arXiv 2211.00184) should lower them.
    """

    skip: Annotated[int, ">= 0", "rounds at the start to leave out"] = 0

    def compute(self, run: LoadedRun) -> dict[str, float]:
        """step_std, amplitude, frequency_per_round; empty for a run without training accuracy."""
        train = run.evaluations[run.evaluations["on"] == "train"]
        if train.empty:
            return {}
        return oscillation(train["accuracy"].to_numpy(dtype=float)[self.skip :])


def oscillation(accuracy: FloatArray) -> dict[str, float]:
    """Change per round, amplitude and frequency of a series (rounds,).

    step_std: standard deviation of first differences. amplitude: half the distance between the 5th
    and the 95th percentile. frequency_per_round: upward crossings of the middle between them, per
    round. NaN for fewer than three rounds.
    """
    if accuracy.size < 3:
        return dict.fromkeys(("step_std", "amplitude", "frequency_per_round"), float("nan"))
    low, high = np.percentile(accuracy, [5, 95])
    above = accuracy > (low + high) / 2
    return {
        "step_std": float(np.diff(accuracy).std()),
        "amplitude": float(high - low) / 2,
        "frequency_per_round": float((above[1:] & ~above[:-1]).sum()) / (accuracy.size - 1),
    }
