"""Estimated durations of many entities (edge servers, clients), kept as they are observed."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import FloatArray, IntArray
from simfl.common.contract import at_work, misbehaves
from simfl.decisions.base import Estimator


class Latencies:
    """One estimator's memory per entity (mutable), a row each."""

    def __init__(self, estimator: Estimator, entities: int) -> None:
        self._estimator = estimator
        with at_work(estimator, "initial"):
            first = np.array(estimator.initial(), dtype=float)
        if first.ndim != 1:
            raise misbehaves(estimator, "initial", first, "a row of numbers")
        self._memory: FloatArray = np.tile(first, (entities, 1))
        self._sum_s, self._count = 0.0, 0

    @property
    def mean_s(self) -> float:
        """The mean of all durations observed so far; NaN before the first one."""
        return self._sum_s / self._count if self._count else float("nan")

    def observe(self, entities: IntArray, duration_s: ArrayLike, prior_s: ArrayLike) -> None:
        """Take in one duration (seconds) each of distinct entities, expected to be `prior_s`."""
        duration, prior = (np.asarray(one, dtype=float) for one in (duration_s, prior_s))
        held = self._memory[entities]
        with at_work(self._estimator, "observe"):
            rows = self._estimator.observe(held, duration.copy(), prior.copy())
        if np.shape(rows) != held.shape:
            raise misbehaves(self._estimator, "observe", rows, f"numbers of shape {held.shape}")
        self._memory[entities] = rows
        self._sum_s += float(duration.sum())
        self._count += int(np.size(entities))

    def estimate_s(self, entities: IntArray, prior_s: ArrayLike) -> FloatArray:
        """Seconds per entity; `prior_s` is what is expected of those never observed."""
        memory, prior = self._memory[entities], np.array(prior_s, dtype=float)
        with at_work(self._estimator, "estimate"):
            given = self._estimator.estimate(memory, prior)
            estimate_s: FloatArray = np.asarray(given, dtype=float)
        if estimate_s.shape != entities.shape or (estimate_s < 0).any():
            accepted = f"seconds >= 0 of shape {entities.shape}"
            raise misbehaves(self._estimator, "estimate", given, accepted)
        return estimate_s

    def posterior(self, entities: IntArray, prior_s: ArrayLike) -> dict[str, FloatArray]:
        """What the estimator believes beyond the estimate, a column each."""
        memory, prior = self._memory[entities], np.array(prior_s, dtype=float)
        with at_work(self._estimator, "posterior"):
            given = self._estimator.posterior(memory, prior)
            return {name: np.asarray(column, dtype=float) for name, column in given.items()}
