"""The latency of rounds and its coefficient of variation.

Source: FedCure (arXiv 2511.10227), Figure 4a, read as the latencies T_pi(t) from dispatch to
arrival of the edge servers scheduled in rounds t = 1, 2, ...; round 0, in which all are dispatched,
is left out. The standard deviation is that of the population.

If the cloud waits for all edge servers (`hierarchical`), none is scheduled: a round there is from
the first dispatch to the last arrival, including round 0. Under a flat protocol a round is from the
selection of its clients to the publication of its version. Rounds without a version are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.measures.base import Measure
from simfl.measures.dispatches import ROUND_0, decisions, dispatches, flat_rounds, whole_rounds
from simfl.measures.inequality import coefficient_of_variation
from simfl.runs.runfolder import LoadedRun


@dataclass(frozen=True, eq=False)
class Latencies:
    """The scheduled dispatches that arrived: `latency_s`, and `gap_s` between two arrivals.

    For rounds of all edge servers: from the first dispatch to the last arrival, and between two
    last arrivals. For a flat run's versions: from selection to publication, and between two
    publications.
    """

    latency_s: FloatArray
    gap_s: FloatArray


def round_latencies(run: LoadedRun) -> Latencies:
    """In order of arrival; empty if nothing was scheduled, as in round 0 alone."""
    table = dispatches(run)
    if table.empty:
        table = flat_rounds(run)
    elif not decisions(run).empty or (rounds := whole_rounds(run)).empty:
        table = table[table["round"] > ROUND_0]
    else:
        table = rounds
    return Latencies(table["latency_s"].to_numpy(), np.diff(table["arrived_s"].to_numpy()))


@dataclass(frozen=True)
class RoundLatency(Measure):
    """Seconds of a round, and how much they vary.

    With edge servers a round is a scheduled dispatch, from the cloud's message to the arrival of
    the model; under hierarchical, without scheduling, it is from the first message of a round to
    the last arrival. Under flat protocols it is a version, from the selection of its clients (under
    asynchronous and buffered, of the client whose update arrived last) to its publication; waiting
    for available clients and rounds without a version are not included.
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
