"""Costs to reach a target, with lower bounds for runs that missed it.

A run that ended without its target is censored: it would have needed more than it had spent. A mean
over only the runs that met the target would favour methods that rarely do, so a mean is given only
if all runs met it. Otherwise the median over all runs is given, or a bound on it (Kleinbaum, Klein,
Survival Analysis, 2012, chapter 1).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from simfl.common.arrays import BoolArray, FloatArray

TARGETS = {
    "time": ("time_s", "s"),
    "energy": ("energy_j", "j"),
    "client_energy": ("client_energy_j", "j"),
    "client_active": ("client_active_j", "j"),
    "server_energy": ("server_energy_j", "j"),
    "bytes": ("bytes", "b"),
}
"""Costs of reaching a target: the column that holds each, and the unit at the end of its name.

Both the rounds table (until a version) and a study's table (until the run's end) have the column.
"""

_NAME = re.compile(rf"({'|'.join(TARGETS)})_to_(accuracy|loss)_(.+)_[a-z]")


@dataclass(frozen=True)
class Target:
    """What the column of a target is about: `what` was to be met ("accuracy 0.5"), and the column
    `spent` with what a run had spent at its end (seconds, joules or bytes).
    """

    what: str
    spent: str


def column_name(asked: str, figure: str, target: float) -> str:
    """The column of a target, such as `time_to_accuracy_0.5_s`."""
    return f"{asked}_to_{figure}_{target:g}_{TARGETS[asked][1]}"


def asked_by(metric: str) -> tuple[str, str, float] | None:
    """(column of the rounds table, accuracy or loss, target), parsed from a target's column."""
    found = _NAME.fullmatch(metric)
    try:
        target = float(found[3]) if found else math.nan
    except ValueError:
        return None
    if found is None or column_name(found[1], found[2], target) != metric:
        return None
    return TARGETS[found[1]][0], found[2], target


def target_of(metric: str) -> Target | None:
    """The target that a column is about; None for every other figure."""
    found = _NAME.fullmatch(metric)
    return Target(f"{found[2]} {found[3]}", TARGETS[found[1]][0]) if found else None


def completed(table: pd.DataFrame) -> pd.DataFrame:
    """The runs that completed; all runs of a table without `status`."""
    return table[table["status"] == "completed"] if "status" in table else table


def ended_badly(table: pd.DataFrame) -> int:
    """How many runs diverged; 0 for a table without `status`."""
    return int((table["status"] == "diverged").sum()) if "status" in table else 0


def judged(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The runs by which a figure is judged: those that completed.

    For a target, also those that diverged: they met it before or never will; but not those of which
    no version was evaluated, so that nobody knows whether it met the target.
    """
    return completed(table) if target_of(metric) is None else table[~unevaluated(table, metric)]


def unevaluated(table: pd.DataFrame, metric: str) -> BoolArray:
    """Which runs were never evaluated by the figure of a target, and so neither met nor missed it.

    A run that diverged did miss it.
    """
    asked = asked_by(metric)
    if asked is None or asked[1] not in table:
        return np.zeros(len(table), dtype=bool)
    unknown = table[asked[1]].isna() & table[metric].isna()
    if "status" in table:
        unknown &= table["status"] != "diverged"
    found: BoolArray = unknown.to_numpy(dtype=bool)
    return found


def is_known(table: pd.DataFrame, metric: str) -> bool:
    """Whether some run has a figure, or is known to have missed it."""
    if metric not in table:
        return False
    return target_of(metric) is not None or bool(judged(table, metric)[metric].notna().any())


def ends(runs: pd.DataFrame, metric: str) -> FloatArray:
    """What each run had spent at its end, in the target's unit.

    NaN if the table lacks it, and for a run that was never evaluated.
    """
    target = target_of(metric)
    if target is None or target.spent not in runs:
        return np.full(len(runs), np.nan)
    return np.where(unevaluated(runs, metric), np.nan, runs[target.spent].to_numpy(dtype=float))


def median_and_bound(values: FloatArray, ends: FloatArray) -> tuple[float, float]:
    """The median over all runs, or else its lower bound; the other one is NaN.

    `values` is NaN for runs that missed the target; `ends` is what they had spent by then. In the
    lowest possible median every such run meets the target right at its end, in the highest one
    never. The median is known if the two agree: more than half of the runs met the target, and none
    of the others ended before the median. Otherwise the lowest possible median is the lower bound.
    """
    missed = np.isnan(values)
    low = float(np.median(np.where(missed, ends, values)))
    high = float(np.median(np.where(missed, np.inf, values)))
    return (low, np.nan) if low == high else (np.nan, low)


def median_interval(values: FloatArray, ends: FloatArray, confidence: float) -> tuple[float, float]:
    """A distribution-free confidence interval for the median, from order statistics.

    The r-th lowest and r-th highest of n runs enclose the median as often as n throws of a coin
    show each side at least r times (David, Nagaraja, Order Statistics, 2003, section 7.1), however
    skewed the figures are. `values` and `ends` as in `median_and_bound`: a run that missed the
    target counts with its end for the lower limit, and as infinite for the upper. NaN below six
    runs at 95 %.
    """
    count, missed = values.size, np.isnan(values)
    rank = 0
    while special.bdtr(rank, count, 0.5) <= (1 - confidence) / 2:
        rank += 1
    if not rank:
        return math.nan, math.nan
    low = np.sort(np.where(missed, ends, values))[rank - 1]
    high = np.sort(np.where(missed, np.inf, values))[count - rank]
    return float(low), float(high)


def known_first(
    values: FloatArray,
    rivals: FloatArray,
    ends_of_rivals: FloatArray,
) -> int:
    """In how many pairs a run is known to have met the target before its rival.

    That is: the run met it, and the rival needed more or had already spent as much without meeting
    it.
    """
    later = np.where(np.isnan(rivals), values <= ends_of_rivals, values < rivals)
    return int((~np.isnan(values) & later).sum())
