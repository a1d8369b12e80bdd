"""Calibration of latency estimates: the share of latencies in the predictive interval.

Source: the Normal-Inverse-Gamma posterior that FedCure's estimator logs at each decision. Given
kn, an, bn and the estimate mun, the next latency is Student-t with 2 an degrees of freedom around
mun, its squared scale bn (kn + 1) / (an kn).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from scipy import stats

from simfl.common.arrays import FloatArray
from simfl.measures.base import Measure
from simfl.measures.dispatches import decisions, dispatches
from simfl.runs.runfolder import LoadedRun


@dataclass(frozen=True, eq=False)
class Calibration:
    """Predictions at the decision and realised latencies, in seconds, one entry per dispatch.

    Only dispatches whose model arrived, not those ended by an edge server's crash.
    """

    observed_s: FloatArray
    estimate_s: FloatArray
    low_s: FloatArray
    high_s: FloatArray

    @property
    def inside(self) -> float:
        """The share of latencies within their interval."""
        within = (self.low_s <= self.observed_s) & (self.observed_s <= self.high_s)
        return float(within.mean())


def latency_calibration(run: LoadedRun, level: float = 0.9) -> Calibration | None:
    """Central intervals of probability `level`; None if no posterior was logged."""
    made = decisions(run)
    if made.empty or "kn" not in made:
        return None
    # The estimator observes the time since the decision, including repairs of a broken link.
    table = dispatches(run).merge(made, on="round")
    observed_s = (table["arrived_s"] - table["time_s"]).to_numpy()
    kn, an, bn, mun = (
        np.array([row[name][row["picked"]] for _, row in table.iterrows()], dtype=float)
        for name in ("kn", "an", "bn", "estimated_latency_s")
    )
    scale = np.sqrt(bn * (kn + 1.0) / (an * kn))
    reach = stats.t.ppf((1.0 + level) / 2.0, 2.0 * an) * scale
    return Calibration(observed_s, mun, mun - reach, mun + reach)


@dataclass(frozen=True)
class LatencyCalibration(Measure):
    """The share of latencies in the estimator's predictive interval, and its mean error.

    Latencies are from the decision to the model's arrival; other dispatches are left out.
    """

    learned: ClassVar[bool] = False

    level: Annotated[float, "> 0", "< 1", "probability of the interval"] = 0.9

    def compute(self, run: LoadedRun) -> dict[str, float]:
        """predictions, inside_interval (share) and relative_error (mean of |error| / latency)."""
        found = latency_calibration(run, self.level)
        if found is None or not found.observed_s.size:
            return {}
        error = np.abs(found.estimate_s - found.observed_s) / found.observed_s
        return {
            "predictions": float(found.observed_s.size),
            "inside_interval": found.inside,
            "relative_error": float(error.mean()),
        }
