"""Certificate of the scheduling: virtual queues stay short, rebuilt from the logged picks.

Source: FedCure (arXiv 2511.10227), Eq. 13 in its causal form, Definition 5 and Theorem 2.

    Lambda_m(t)   participation that edge server m is owed           rounds
    delta_m       least share of the rounds, kappa D_m / D           1
    chi_m(t)      1 if m was dispatched in round t; all in round 0   1

    Lambda_m(t) = max(Lambda_m(t - 1) + delta_m - chi_m(t - 1), 0),  Lambda_m(0) = 0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from scipy import stats

from simfl.common.arrays import FloatArray, IntArray
from simfl.measures.base import Measure
from simfl.measures.dispatches import columns, data_shares, decisions, owed_shares
from simfl.runs.runfolder import LoadedRun

BATCHES = 10


@dataclass(frozen=True, eq=False)
class Queues:
    """Lambda in rounds 1, 2, ..., shape (rounds, edge servers), and delta (edge servers,).

    `log_error` is the largest difference from the queues logged by the scheduling rule (NaN: none).
    """

    lengths: FloatArray
    owed: FloatArray
    log_error: float

    @property
    def longest(self) -> FloatArray:
        """The longest queue of each round."""
        longest: FloatArray = self.lengths.max(axis=1)
        return longest

    @property
    def over_rounds(self) -> FloatArray:
        """max_m Lambda_m(t) / t, which tends to 0 if queues are mean rate stable."""
        return self.longest / np.arange(1, self.longest.size + 1)


@dataclass(frozen=True)
class Growth:
    """How the longest queue grows in the second half of a run, in rounds per round.

    `slope` is fitted to the means of `BATCHES` intervals, with its 95 % interval `low` to `high`;
    `of_owed` is the slope divided by the delta of the edge server whose queue is the longest at the
    end: 0 for a stable queue, 1 for one that is never served. `level` is the mean length in that
    half.
    """

    slope: float
    low: float
    high: float
    of_owed: float
    level: float


def rebuilt(owed: FloatArray, picked: IntArray) -> FloatArray:
    """Eq. 13 over the edge servers picked in rounds 1, 2, ...: Lambda (rounds, edge servers)."""
    lengths, served = np.zeros((picked.size, owed.size)), np.ones(owed.size)
    queue = np.zeros(owed.size)
    for index, edge in enumerate(picked):
        queue = np.maximum(queue + owed - served, 0.0)
        lengths[index] = queue
        served = (np.arange(owed.size) == edge).astype(float)
    return lengths


def virtual_queues(run: LoadedRun, participation: float | None = None) -> Queues | None:
    """The queues of a run, if every edge server is owed its part of `participation` (kappa).

    `participation` None: the run's own rule. Returns None without decisions or owed shares.
    """
    made = decisions(run)
    owed = owed_shares(run)
    if participation is not None and len(made):
        edges = columns(made, "estimated_latency_s").shape[1]
        owed = participation * data_shares(run, edges)
    if made.empty or not owed.any():
        return None
    lengths = rebuilt(owed, made["picked"].to_numpy())
    log_error = float("nan")
    if "queues" in made:
        log_error = float(np.abs(columns(made, "queues") - lengths).max())
    return Queues(lengths, owed, log_error)


def growth(queues: Queues) -> Growth:
    """The growth over the second half; NaN if it has fewer rounds than `BATCHES`."""
    later = queues.longest[queues.longest.size // 2 :]
    if later.size < BATCHES:
        nan = float("nan")
        return Growth(nan, nan, nan, nan, float(later.mean()))
    stretches = np.array_split(later, BATCHES)
    ends = np.cumsum([one.size for one in stretches])
    middles = ends - np.array([one.size for one in stretches]) / 2.0
    fit = stats.linregress(middles, [one.mean() for one in stretches])
    slope = float(fit.slope)
    reach = float(stats.t.ppf(0.975, BATCHES - 2) * fit.stderr)
    # An edge server without an owed share has no queue, though it may be the first of equal ones.
    waits = int(np.where(queues.owed > 0, queues.lengths[-1], -1.0).argmax())
    of_owed = slope / float(queues.owed[waits])
    return Growth(slope, slope - reach, slope + reach, of_owed, float(later.mean()))


@dataclass(frozen=True)
class VirtualQueues(Measure):
    """The participation that edge servers are owed, and whether it grows for ever."""

    learned: ClassVar[bool] = False

    participation: Annotated[
        float | None,
        "> 0",
        "<= 1",
        "least shares of rounds, summed (kappa), for the queues; null: the rule's own",
    ] = None

    def compute(self, run: LoadedRun) -> dict[str, float]:
        """longest, last_over_rounds, growth_of_owed (0: stable, 1: unserved), log_error."""
        queues = virtual_queues(run, self.participation)
        if queues is None:
            return {}
        return {
            "longest": float(queues.longest.max()),
            "last_over_rounds": float(queues.over_rounds[-1]),
            "growth_of_owed": growth(queues).of_owed,
            "log_error": queues.log_error,
        }
