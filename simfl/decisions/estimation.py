"""How long will it take? Estimates from the durations observed so far."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from simfl.decisions.views import FloatArray


@dataclass
class RunningMean:
    """The mean of each entity's observed durations; NaN until the first one."""

    entities: int

    def __post_init__(self) -> None:
        self._sum: FloatArray = np.zeros(self.entities)
        self._count: FloatArray = np.zeros(self.entities)

    def observe(self, entity: ArrayLike, duration_s: ArrayLike) -> None:
        """Take in durations (seconds) of one entity or of an array of distinct ones."""
        which = np.atleast_1d(np.asarray(entity, dtype=np.int64))
        self._sum[which] += np.asarray(duration_s, dtype=float)
        self._count[which] += 1.0

    def estimate_s(self) -> FloatArray:
        """Seconds per entity."""
        with np.errstate(invalid="ignore"):
            return self._sum / self._count
