"""How evenly rounds take: coefficients of variation.

Source: FedCure (arXiv 2511.10227), Figure 4a, read as the latencies T_pi(t) from dispatch to
arrival of the edge servers scheduled in rounds t = 1, 2, ...; round 0, in which all are dispatched,
is left out. The standard deviation is that of the population.

Nobody schedules edge servers where the cloud waits for all of them (`hierarchical`): a round there
is from the first dispatch to the last arrival, round 0 included. Under a flat protocol a round is
from the selection of its clients to the publication of its version. Rounds in vain make no version
and are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.measures.base import Measure
from simfl.measures.dispatches import ROUND_0, decisions, dispatches, flat_rounds, whole_rounds
from simfl.runs.runfolder import LoadedRun


@dataclass(frozen=True, eq=False)
class Latencies:
    """Of the scheduled dispatches that arrived: `latency_s`, and `gap_s` between two arrivals.

    Of rounds of all edge servers from the first dispatch to the last arrival, and between two last
    arrivals. Of a flat run's versions from selection to publication, and between two publications.
    """

    latency_s: FloatArray
    gap_s: FloatArray


def round_latencies(run: LoadedRun) -> Latencies:
    """In order of arrival; empty where nothing was scheduled, as in round 0 alone."""
    table = dispatches(run)
    if table.empty:
        table = flat_rounds(run)
    elif not decisions(run).empty or (rounds := whole_rounds(run)).empty:
        table = table[table["round"] > ROUND_0]
    else:
        table = rounds
    return Latencies(table["latency_s"].to_numpy(), np.diff(table["arrived_s"].to_numpy()))


def coefficient_of_variation(values: FloatArray) -> float:
    """Standard deviation (population) over mean; NaN of no values."""
    return float(values.std() / values.mean()) if values.size else float("nan")


@dataclass(frozen=True)
class RoundLatency(Measure):
    """Seconds of a round, and how much they vary.

    With edge servers those of a scheduled dispatch, from the cloud's message to the arrival of the
    model; under hierarchical, where none is scheduled, from the first message of a round to the
    last arrival. Under flat protocols those of a version, from the selection of its clients (under
    asynchronous and buffered, of the update that arrived last) to its publication: waiting for
    clients to come and rounds in vain lie between two of them.
    """

    learned: ClassVar[bool] = False

    def compute(self, run: LoadedRun) -> dict[str, float]:
        """latency_mean_s, latency_cov, and arrival_gap_cov of the times between two ends."""
        found = round_latencies(run)
        if not found.latency_s.size:
            return {}
        return {
            "latency_mean_s": float(found.latency_s.mean()),
            "latency_cov": coefficient_of_variation(found.latency_s),
            "arrival_gap_cov": coefficient_of_variation(found.gap_s),
        }
