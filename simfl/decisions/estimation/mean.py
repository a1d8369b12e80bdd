"""Latency estimates: the mean so far."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.decisions.base import Estimator


@dataclass(frozen=True)
class Mean(Estimator):
    """The arithmetic mean of all durations observed."""

    def initial(self) -> tuple[float, ...]:
        """Count, mean."""
        return (0.0, 0.0)

    def observe(
        self, memory: FloatArray, duration_s: FloatArray, prior_s: FloatArray
    ) -> FloatArray:
        """The mean after one more observation."""
        count, mean = memory.T
        return np.stack([count + 1.0, mean + (duration_s - mean) / (count + 1.0)], axis=1)

    def estimate(self, memory: FloatArray, prior_s: FloatArray) -> FloatArray:
        """The mean, or the prior before the first observation."""
        count, mean = memory.T
        return np.where(count > 0, mean, prior_s)
