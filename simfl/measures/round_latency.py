"""How evenly rounds take: coefficients of variation.

Source: FedCure (arXiv 2511.10227), Figure 4a, read as the latencies T_pi(t) from dispatch to
arrival of the edge servers scheduled in rounds t = 1, 2, ...; round 0, in which all are dispatched,
is left out. The standard deviation is that of the population.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.measures.base import Measure
from simfl.measures.dispatches import ROUND_0, dispatches
from simfl.runs.runfolder import LoadedRun


@dataclass(frozen=True, eq=False)
class Latencies:
    """Of the scheduled dispatches that arrived: `latency_s`, and `gap_s` between two arrivals."""

    latency_s: FloatArray
    gap_s: FloatArray


def round_latencies(run: LoadedRun) -> Latencies:
    """In order of arrival; empty where nothing was scheduled."""
    table = dispatches(run)
    table = table[table["round"] > ROUND_0]
    return Latencies(table["latency_s"].to_numpy(), np.diff(table["arrived_s"].to_numpy()))


def coefficient_of_variation(values: FloatArray) -> float:
    """Standard deviation (population) over mean; NaN of no values."""
    return float(values.std() / values.mean()) if values.size else float("nan")


@dataclass(frozen=True)
class RoundLatency(Measure):
    """Latency of the scheduled dispatches, and how much it varies."""

    learned: ClassVar[bool] = False

    def compute(self, run: LoadedRun) -> dict[str, float]:
        """latency_mean_s, latency_cov of T_pi(t), and arrival_gap_cov of the times between."""
        found = round_latencies(run)
        if not found.latency_s.size:
            return {}
        return {
            "latency_mean_s": float(found.latency_s.mean()),
            "latency_cov": coefficient_of_variation(found.latency_s),
            "arrival_gap_cov": coefficient_of_variation(found.gap_s),
        }
