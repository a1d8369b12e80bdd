"""How long will it take? Estimates from the durations observed so far."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simfl.decisions.views import FloatArray


@dataclass
class RunningMean:
    """The mean of each entity's observed durations; NaN until the first one."""

    entities: int

    def __post_init__(self) -> None:
        self._sum: FloatArray = np.zeros(self.entities)
        self._count: FloatArray = np.zeros(self.entities)

    def observe(self, entity: object, duration_s: object) -> None:
        """Take in durations (seconds) of one entity or of an array of distinct ones."""
        self._sum[entity] += duration_s  # type: ignore[index]
        self._count[entity] += 1  # type: ignore[index]

    def estimate_s(self) -> FloatArray:
        """Seconds per entity."""
        with np.errstate(invalid="ignore"):
            return self._sum / self._count
