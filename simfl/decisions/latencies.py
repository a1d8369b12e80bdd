"""Estimated durations of many entities (edge servers, clients), kept as they are observed."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from simfl.decisions.base import Estimator
from simfl.decisions.views import FloatArray, IntArray


class Latencies:
    """One estimator's memory per entity (mutable), a row each."""

    def __init__(self, estimator: Estimator, entities: int) -> None:
        self._estimator = estimator
        self._memory: FloatArray = np.tile(np.array(estimator.initial()), (entities, 1))
        self._sum_s, self._count = 0.0, 0

    @property
    def mean_s(self) -> float:
        """The mean of all durations observed so far; NaN before the first one."""
        return self._sum_s / self._count if self._count else float("nan")

    def observe(self, entities: IntArray, duration_s: ArrayLike, prior_s: ArrayLike) -> None:
        """Take in one duration (seconds) each of distinct entities, expected to be `prior_s`."""
        duration, prior = (np.asarray(one, dtype=float) for one in (duration_s, prior_s))
        self._memory[entities] = self._estimator.observe(self._memory[entities], duration, prior)
        self._sum_s += float(duration.sum())
        self._count += int(np.size(entities))

    def estimate_s(self, entities: IntArray, prior_s: ArrayLike) -> FloatArray:
        """Seconds per entity; `prior_s` is what is expected of those never observed."""
        return self._estimator.estimate(self._memory[entities], np.asarray(prior_s, dtype=float))

    def posterior(self, entities: IntArray, prior_s: ArrayLike) -> dict[str, FloatArray]:
        """What the estimator believes beyond the estimate, a column each."""
        return self._estimator.posterior(self._memory[entities], np.asarray(prior_s, dtype=float))
