"""Latency estimates: as last time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.decisions.base import Estimator


@dataclass(frozen=True)
class Last(Estimator):
    """The last duration observed."""

    def initial(self) -> tuple[float, ...]:
        """The last one: there is none yet."""
        return (np.nan,)

    def observe(
        self, memory: FloatArray, duration_s: FloatArray, prior_s: FloatArray
    ) -> FloatArray:
        """This one is the last now."""
        return np.broadcast_to(duration_s[..., None], memory.shape)

    def estimate(self, memory: FloatArray, prior_s: FloatArray) -> FloatArray:
        """The last one, or what was expected."""
        return np.where(np.isnan(memory[:, 0]), prior_s, memory[:, 0])
