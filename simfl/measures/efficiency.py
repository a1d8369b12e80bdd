"""FedCure's objective (Eq. 7a), and the gap to the best efficiency.

Source: FedCure (arXiv 2511.10227), Eqs. 6, 7a, 14 and Theorem 4.

Symbols
    T_m, That_m      latency from dispatch to arrival, and as estimated         s
    I(t)             mean over the decisions so far of max_m That_m             s
    g(t)             1 - That_pi(t)(t) / I(t), the efficiency of a decision     1
    c_n, f_n, t_n    cycles of a client's dispatch, its clock, c_n / f_n        Gcycles, GHz, s
    Z                alpha (1 - t_n / T_m) - gamma f_n^s, mean over clients     1
    beta, K          weight of efficiency; K <= 2 bounds a round's drift        rounds, 1

Theorem 4 bounds the gap g* - mean g by K / (2 beta). g* is taken as the best that long-run shares
p_m of the dispatches can give with C in flight, each edge server at most once:

    maximise    sum_m p_m (1 - That_m / I)
    subject to  sum p = 1,  p >= delta,  C p_m That_m <= sum_j p_j That_j

Departures
1. The paper's K <= 1 is false (K = 1 - 2 delta_pi + sum delta^2); 2 holds.
2. Theorem 4's proof has the direction of Eq. 42 wrong: the bound is shown, not certified.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from scipy.optimize import linprog

from simfl.common.arrays import FloatArray
from simfl.measures.base import Measure
from simfl.measures.dispatches import ROUND_0, columns, decisions, dispatches, owed_shares
from simfl.runs.runfolder import LoadedRun

GIGA = 1.0e9


@dataclass(frozen=True)
class EfficiencyGap:
    """Mean g of a run, the best g* of long-run shares, and Theorem 4's bound on the difference.

    `bound` is K / (2 beta) with K = 2; infinite for rules without a beta.
    """

    mean: float
    best: float
    bound: float

    @property
    def gap(self) -> float:
        """g* - mean g; negative while slow edge servers are still owed rounds."""
        return self.best - self.mean


@dataclass(frozen=True)
class Objective:
    """Eq. 7a over the scheduled dispatches that arrived.

    `relative_latency` is the sum of T_pi(t) / I over `rounds` dispatches, I the mean over the run;
    `utility` the mean of Z over clients and dispatches, `frequency_hz` of the clocks in it.
    """

    rounds: int
    relative_latency: float
    utility: float
    frequency_hz: float


def efficiency_gap(run: LoadedRun) -> EfficiencyGap | None:
    """The gap of a run; None if nothing was scheduled."""
    made = decisions(run)
    if made.empty:
        return None
    estimate_s, picked = columns(made, "estimated_latency_s"), made["picked"].to_numpy()
    normaliser_s = _normaliser_s(estimate_s)
    chosen_s = estimate_s[np.arange(picked.size), picked]
    some = made["idle"].map(len).iloc[0]
    there = ~np.isnan(estimate_s[0])
    owed = owed_shares(run)
    best = best_efficiency(
        estimate_s.mean(axis=0)[there],
        (owed if owed.size else np.zeros(there.size))[there],
        concurrency=int(there.sum()) - int(some) + 1,
        normaliser_s=float(normaliser_s.mean()),
    )
    beta = run.scenario["decisions"].get("scheduling", {}).get("beta", 0.0)
    return EfficiencyGap(
        float((1.0 - chosen_s / normaliser_s).mean()), best, 1.0 / beta if beta else float("inf")
    )


def best_efficiency(
    latency_s: FloatArray, owed: FloatArray, concurrency: int, normaliser_s: float
) -> float:
    """g*: the largest mean g of any shares of the dispatches; NaN if `owed` cannot be met.

    `latency_s` and `owed` per edge server; `concurrency` are in flight at any time.
    """
    edges = latency_s.size
    once = concurrency * np.diag(latency_s) - latency_s  # row m: C p_m T_m - sum p T <= 0
    found = linprog(
        latency_s / normaliser_s,
        A_ub=once,
        b_ub=np.zeros(edges),
        A_eq=np.ones((1, edges)),
        b_eq=[1.0],
        bounds=[(float(share), 1.0) for share in owed],
    )
    return 1.0 - float(found.fun) if found.status == 0 else float("nan")


def objective(
    run: LoadedRun, alpha: float = 1.0, gamma: float = 0.25, s: float = 2.0
) -> Objective | None:
    """The objective of a run, with Eq. 6's weights (GHz); None if nothing was scheduled."""
    made, table = decisions(run), dispatches(run)
    table = table[table["round"] > ROUND_0]
    if made.empty or table.empty:
        return None
    normaliser_s = _normaliser_s(columns(made, "estimated_latency_s"))[-1]
    rounds = run.details("compute").merge(table, on=["round", "edge"])
    rounds = rounds.assign(by_clock=rounds["cycles"] * rounds["frequency_hz"])
    of_dispatch = rounds.groupby(["round", "edge", "client"])
    spent = of_dispatch[["cycles", "duration_s", "by_clock"]].sum()
    latency_s = of_dispatch["latency_s"].first()
    frequency_hz = spent["by_clock"] / spent["cycles"]
    delay = alpha * (1.0 - spent["duration_s"] / latency_s)
    cost = gamma * (frequency_hz / GIGA) ** s
    return Objective(
        len(table),
        float((table["latency_s"] / normaliser_s).sum()),
        float((delay - cost).mean()),
        float(frequency_hz.mean()),
    )


@dataclass(frozen=True)
class Efficiency(Measure):
    """The objective of FedCure's Eq. 7a, and the gap to the most efficient schedule.

    `efficiency_gap_bound`, Theorem 4's, is shown but not certified: its proof has a step (Eq. 42)
    in the wrong direction, so a gap above it violates nothing.
    """

    learned: ClassVar[bool] = False

    alpha: Annotated[float, "> 0", "weight of delay in Z (alpha)"] = 1.0
    gamma: Annotated[float, "> 0", "weight of the cost of speed in Z, per GHz^s (gamma)"] = 0.25
    s: Annotated[float, "> 0", "exponent of the cost of speed (s)"] = 2.0

    def compute(self, run: LoadedRun) -> dict[str, float]:
        """relative_latency (sum and mean of T / I), utility (Z), efficiency (g), its gap and bound.

        The bound is infinite for rules without a beta.
        """
        reached, gap = objective(run, self.alpha, self.gamma, self.s), efficiency_gap(run)
        if reached is None or gap is None:
            return {}
        return {
            "relative_latency_sum": reached.relative_latency,
            "relative_latency_mean": reached.relative_latency / reached.rounds,
            "utility_mean": reached.utility,
            "efficiency_mean": gap.mean,
            "efficiency_gap": gap.gap,
            "efficiency_gap_bound": gap.bound,
        }


def _normaliser_s(estimate_s: FloatArray) -> FloatArray:
    """I(t): the running mean of the longest estimate, shape (decisions,)."""
    longest_s = np.nanmax(estimate_s, axis=1)
    running: FloatArray = np.cumsum(longest_s) / np.arange(1, longest_s.size + 1)
    return running
