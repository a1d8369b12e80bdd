"""Latency estimates: the last duration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.decisions.base import Estimator


@dataclass(frozen=True)
class Last(Estimator):
    """The last duration observed."""

    def initial(self) -> tuple[float, ...]:
        """No observation yet."""
        return (np.nan,)

    def observe(
        self, memory: FloatArray, duration_s: FloatArray, prior_s: FloatArray
    ) -> FloatArray:
        """The newest observation."""
        return np.broadcast_to(duration_s[..., None], memory.shape)

    def estimate(self, memory: FloatArray, prior_s: FloatArray) -> FloatArray:
        """The last observation, or the prior before the first one."""
        return np.where(np.isnan(memory[:, 0]), prior_s, memory[:, 0])
