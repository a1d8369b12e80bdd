"""A daily variation of the rate at which clients return."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import FloatArray
from simfl.common.limits import SHORTEST_S
from simfl.common.time_of_day import TIME_OF_DAY

_TOLERANCE_S = 1e-6
_ROUNDING = 1e-14
_MOST_STEPS = 100


@dataclass(frozen=True)
class Diurnal:
    """h(t) = 1 + swing cos(2 pi (t - peak_s) / period_s), with mean 1 over a period.

    For phones that charge while idle on Wi-Fi: a swing of 0.37 with its peak at 4 o'clock (hourly
    shares of 710 phones of FLHetBench, CVPR 2024).
    """

    swing: Annotated[float, ">= 0", "< 1", "relative size of the variation; 0: none"] = 0.37
    peak_s: Annotated[
        float, TIME_OF_DAY, "time of day of the highest rate, or seconds after midnight"
    ] = 14400.0
    period_s: Annotated[float, SHORTEST_S] = 86400.0

    def elapsed(self, time_s: ArrayLike) -> FloatArray:
        """H(t), the integral of h from a fixed origin: the time elapsed at rate h."""
        time = np.asarray(time_s, dtype=float)
        angular = 2.0 * math.pi / self.period_s
        wave: FloatArray = time + self.swing / angular * np.sin(angular * (time - self.peak_s))
        return wave

    def when(self, elapsed: ArrayLike) -> FloatArray:
        """The inverse of `elapsed`, accurate to a microsecond; inf stays inf.

        Newton's method with bounds (for Kepler's equation). Each element is iterated until its own
        error is small, so that its value does not depend on the other elements.
        """
        wanted = np.atleast_1d(np.asarray(elapsed, dtype=float))
        time_s = wanted.copy()
        reach = self.swing * self.period_s / (2.0 * math.pi)
        low, high = wanted - reach, wanted + reach
        angular = 2.0 * math.pi / self.period_s
        open_ = np.flatnonzero(np.isfinite(wanted))
        tolerance_s = np.maximum(_TOLERANCE_S, _ROUNDING * np.abs(wanted))
        for _ in range(_MOST_STEPS):
            error = self.elapsed(time_s[open_]) - wanted[open_]
            open_, error = open_[(far := np.abs(error) > tolerance_s[open_])], error[far]
            if not open_.size:
                break
            at = time_s[open_]
            high[open_] = np.where(error > 0, at, high[open_])
            low[open_] = np.where(error > 0, low[open_], at)
            newton = at - error / (1.0 + self.swing * np.cos(angular * (at - self.peak_s)))
            inside = (newton > low[open_]) & (newton < high[open_])
            time_s[open_] = np.where(inside, newton, 0.5 * (low[open_] + high[open_]))
        return time_s.reshape(np.shape(elapsed))
