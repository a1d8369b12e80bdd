"""Step functions of time: prices, carbon intensities, chargers and harvests.

A series keeps each value until its next time; after the last one it repeats or stays constant. Its
integral over any interval is exact (a difference of its antiderivative).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import FloatArray, IntArray


class StepSeries:
    """`values[i]` from `times_s[i]` to the next time; repeated after `period_s`.

    Times ascend from 0 and are below the period; ValueError otherwise. Without a period, the last
    value holds for ever, and the first one before time 0.
    """

    def __init__(
        self, times_s: Sequence[float], values: Sequence[float], period_s: float | None = None
    ) -> None:
        times, levels = np.asarray(times_s, dtype=float), np.asarray(values, dtype=float)
        if times.ndim != 1 or times.shape != levels.shape or not times.size:
            raise ValueError(
                f"found {times.size} times and {levels.size} values, accepted: equally many, at"
                " least one"
            )
        if times[0] != 0:
            raise ValueError(f"found {times[0]:g} s as the first time, accepted: 0")
        after = np.flatnonzero(~(np.diff(times) > 0))
        if after.size:
            first, second = times[after[0] : after[0] + 2]
            raise ValueError(f"found {second:g} s after {first:g} s, accepted: ascending times")
        if period_s is not None and period_s <= times[-1]:
            raise ValueError(
                f"found {times[-1]:g} s, accepted: times below {period_s:g} s, after which the"
                " series repeats"
            )
        if not np.isfinite(levels).all():
            raise ValueError(f"found {levels[~np.isfinite(levels)][0]}, accepted: finite values")
        self.times_s, self.values, self.period_s = times, levels, period_s
        ends = np.append(times[1:], times[-1] if period_s is None else period_s)
        self._integrals = np.append(0.0, np.cumsum(levels * (ends - times)))

    def at(self, time_s: ArrayLike) -> FloatArray:
        """The value at each time."""
        _, place_s = self._place(time_s)
        found: FloatArray = self.values[self._step(place_s)]
        return found

    def integral(self, start_s: ArrayLike, end_s: ArrayLike) -> FloatArray:
        """The integral of the series from each start to each end, in value times seconds."""
        return self._antiderivative(end_s) - self._antiderivative(start_s)

    def next_change_s(self, time_s: ArrayLike) -> FloatArray:
        """The time of the next step (even to the same value), inf for never."""
        period_begins_s, place_s = self._place(time_s)
        following = self._step(place_s) + 1
        last = np.inf if self.period_s is None else self.period_s
        change_s = np.append(self.times_s, last)[following]
        # Rounding must not give the present time, or a loop over changes would not end.
        later: FloatArray = np.maximum(period_begins_s + change_s, np.nextafter(time_s, np.inf))
        return later

    def _place(self, time_s: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Seconds in complete periods before each time, and the rest."""
        time = np.asarray(time_s, dtype=float)
        if self.period_s is None:
            return np.zeros_like(time), time
        period_begins_s = np.floor(time / self.period_s) * self.period_s
        return period_begins_s, time - period_begins_s

    def _step(self, place_s: FloatArray) -> IntArray:
        found: IntArray = np.maximum(np.searchsorted(self.times_s, place_s, "right") - 1, 0)
        return found

    def _antiderivative(self, time_s: ArrayLike) -> FloatArray:
        period_begins_s, place_s = self._place(time_s)
        step = self._step(place_s)
        within = self._integrals[step] + self.values[step] * (place_s - self.times_s[step])
        before = (
            0.0 if self.period_s is None else period_begins_s / self.period_s * self._integrals[-1]
        )
        total: FloatArray = before + within
        return total
