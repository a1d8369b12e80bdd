"""Estimated durations of many entities (edge servers, clients), updated by observations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.amounts import numbers
from simfl.common.arrays import FloatArray, IntArray
from simfl.common.contract import at_work, misbehaves
from simfl.decisions.base import Estimator


class Latencies:
    """One estimator's memory per entity (mutable), a row each."""

    def __init__(self, estimator: Estimator, entities: int) -> None:
        self._estimator = estimator
        with at_work(estimator, "initial"):
            given = estimator.initial()
        first = numbers(given, estimator, "initial", "a row of numbers")
        if first.ndim != 1:
            raise misbehaves(estimator, "initial", given, "a row of numbers")
        self._memory: FloatArray = np.tile(first, (entities, 1))
        self._sum_s, self._count = 0.0, 0

    @property
    def mean_s(self) -> float:
        """The mean of all durations observed so far; NaN before the first one."""
        return self._sum_s / self._count if self._count else float("nan")

    def observe(self, entities: IntArray, duration_s: ArrayLike, prior_s: ArrayLike) -> None:
        """Takes in one duration (seconds) each of distinct entities, with expectation `prior_s`."""
        duration, prior = (np.asarray(one, dtype=float) for one in (duration_s, prior_s))
        held = self._memory[entities]
        with at_work(self._estimator, "observe"):
            rows = self._estimator.observe(held, duration.copy(), prior.copy())
        self._memory[entities] = self._shaped("observe", rows, held.shape)
        self._sum_s += float(duration.sum())
        self._count += int(np.size(entities))

    def estimate_s(self, entities: IntArray, prior_s: ArrayLike) -> FloatArray:
        """Seconds per entity; `prior_s` is the expectation for those never observed."""
        memory, prior = self._memory[entities], np.array(prior_s, dtype=float)
        with at_work(self._estimator, "estimate"):
            given = self._estimator.estimate(memory, prior.copy())
        accepted = f"finite seconds >= 0 of shape {entities.shape}"
        estimate_s = numbers(given, self._estimator, "estimate", accepted)
        # Without an expectation there may be no estimate.
        sound = np.isfinite(prior)
        if (
            estimate_s.shape != entities.shape
            or (estimate_s < 0).any()
            or not np.isfinite(estimate_s[sound]).all()
        ):
            raise misbehaves(self._estimator, "estimate", given, accepted)
        return estimate_s

    def posterior(self, entities: IntArray, prior_s: ArrayLike) -> dict[str, FloatArray]:
        """What the estimator believes beyond the estimate, a column each."""
        memory, prior = self._memory[entities], np.array(prior_s, dtype=float)
        with at_work(self._estimator, "posterior"):
            given = self._estimator.posterior(memory, prior)
            columns = dict(given)
        return {
            name: self._shaped(f"posterior: {name}", column, entities.shape)
            for name, column in columns.items()
        }

    def _shaped(self, method: str, given: Any, shape: tuple[int, ...]) -> FloatArray:
        """Numbers of this shape, NaN and infinity too; raises `PartMisbehaves`."""
        accepted = f"numbers of shape {shape}"
        column = numbers(given, self._estimator, method, accepted)
        if column.shape != shape:
            raise misbehaves(self._estimator, method, given, accepted)
        return column
