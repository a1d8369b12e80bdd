"""Latency estimates: an exponentially weighted moving average."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.decisions.base import Estimator


@dataclass(frozen=True)
class Ewma(Estimator):
    """estimate = weight * newest + (1 - weight) * last estimate, from the first duration on."""

    weight: Annotated[float, "> 0", "<= 1", "weight of the newest duration"] = 0.3

    def initial(self) -> tuple[float, ...]:
        """No average yet."""
        return (np.nan,)

    def observe(
        self, memory: FloatArray, duration_s: FloatArray, prior_s: FloatArray
    ) -> FloatArray:
        """The average after one more observation."""
        before = np.where(np.isnan(memory[:, 0]), duration_s, memory[:, 0])
        average = self.weight * duration_s + (1.0 - self.weight) * before
        return average[:, None]

    def estimate(self, memory: FloatArray, prior_s: FloatArray) -> FloatArray:
        """The average, or the prior before the first observation."""
        return np.where(np.isnan(memory[:, 0]), prior_s, memory[:, 0])
