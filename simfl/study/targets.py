"""Costs to reach a target, with lower bounds for runs that missed it.

A run that ended without its target is censored: it would have needed more than it had spent at its
end. A mean over the runs that met the target would favour methods that rarely do, so there is one
only where all runs met it. Otherwise the median over all runs is what can be said, or a bound of it
(Kleinbaum, Klein, Survival Analysis, 2012, chapter 1).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from simfl.common.arrays import FloatArray

TARGETS = {
    "time": ("time_s", "s"),
    "energy": ("energy_j", "j"),
    "client_energy": ("client_energy_j", "j"),
    "client_active": ("client_active_j", "j"),
    "server_energy": ("server_energy_j", "j"),
    "bytes": ("bytes", "b"),
}
"""What is asked for every target: the column of a run that tells, and its unit in a name.

Both the rounds table (until a version) and a study's table (until the run's end) have the column.
"""

_NAME = re.compile(rf"({'|'.join(TARGETS)})_to_(accuracy|loss)_(.+)_[a-z]")


@dataclass(frozen=True)
class Target:
    """What the column of a target is about: `what` was to be met ("accuracy 0.5"), and the column
    `spent`, which tells how far a run was watched: its seconds, joules or bytes at its end."""

    what: str
    spent: str


def column_name(asked: str, figure: str, target: float) -> str:
    """The column of a target, as `time_to_accuracy_0.5_s`."""
    return f"{asked}_to_{figure}_{target:g}_{TARGETS[asked][1]}"


def asked_by(metric: str) -> tuple[str, str, float] | None:
    """(column of the rounds table, accuracy or loss, target) of a target's column by its name."""
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
    """The runs that completed; all of a table that does not say (without `status`)."""
    return table[table["status"] == "completed"] if "status" in table else table


def ended_badly(table: pd.DataFrame) -> int:
    """How many runs diverged; none of a table that does not say."""
    return int((table["status"] == "diverged").sum()) if "status" in table else 0


def judged(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The runs that a figure is judged by: those that completed.

    For a target also those that diverged: they met it before or never will.
    """
    return completed(table) if target_of(metric) is None else table


def is_known(table: pd.DataFrame, metric: str) -> bool:
    """Whether some run has a figure, or is known to have missed it."""
    if metric not in table:
        return False
    return target_of(metric) is not None or bool(judged(table, metric)[metric].notna().any())


def ends(runs: pd.DataFrame, metric: str) -> FloatArray:
    """What each run had spent at its end, in the unit of a target; NaN where the table lacks it."""
    target = target_of(metric)
    if target is None or target.spent not in runs:
        return np.full(len(runs), np.nan)
    return runs[target.spent].to_numpy(dtype=float)


def median_and_bound(values: FloatArray, ends: FloatArray) -> tuple[float, float]:
    """The median over all runs and, where that is not known, what it lies above; else NaN each.

    `values` is NaN for runs that missed the target, `ends` what they had spent by then. The lowest
    possible median has every such run meet the target right at its end, the highest one never. The
    median is known where the two agree, which takes that more than half of the runs met the target
    and none of the others ended before the median. Otherwise it lies above the lowest.
    """
    missed = np.isnan(values)
    low = float(np.median(np.where(missed, ends, values)))
    high = float(np.median(np.where(missed, np.inf, values)))
    return (low, np.nan) if low == high else (np.nan, low)


def median_interval(values: FloatArray, ends: FloatArray, confidence: float) -> tuple[float, float]:
    """Between which two runs the median of all that a setting may have lies, by its order.

    Of n runs the r-th and the r-th from above hold it as often as n throws of a coin show neither
    side fewer than r times (David, Nagaraja, Order Statistics, 2003, section 7.1), be the figures
    as skewed as they may. `values` and `ends` as in `median_and_bound`: a run that missed the
    target counts with its end below, and as infinite above. NaN below six runs at 95 %.
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

    It did, and the rival needed more, or had already spent as much when it ended without.
    """
    later = np.where(np.isnan(rivals), values <= ends_of_rivals, values < rivals)
    return int((~np.isnan(values) & later).sum())
