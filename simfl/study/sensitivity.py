"""First-order and total Sobol indices from Saltelli's design.

A first-order index is the share of the variance that a key explains alone; a total index includes
all its interactions. Both are computed by scipy from the values at the matrices A, B and AB.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from simfl.common.arrays import FloatArray, IntArray
from simfl.study.comparisons import all_the_same
from simfl.study.design import saltelli
from simfl.study.effects import explainable, setting_means
from simfl.study.targets import judged

CONFIDENCE = 0.9
ENOUGH_ROWS = 64
RESAMPLES = 999
"""Bootstrap resamples of the rows, for an interval."""

COLUMNS = ["factor", "first_order", "first_low", "first_high", "total", "total_low", "total_high"]


def sobol_indices(table: pd.DataFrame, metric: str, factors: Sequence[str]) -> pd.DataFrame:
    """First-order and total Sobol indices by `scipy.stats.sobol_indices`, one row per factor.

    `table` is that of a study with `points.sample.method: saltelli`; a setting's value is its mean
    over the seeds. `low` and `high` are the ends of 90 % intervals by the percentile bootstrap over
    the design's rows, always with the same draws. No rows if nothing varies, or if the figure is
    not `explainable`. Raises ValueError if the settings are not a complete design.
    """
    from scipy import stats  # a second to load; most studies that are read again do without

    if not explainable(table, metric):
        return pd.DataFrame(columns=COLUMNS)
    means = setting_means(judged(table, metric), metric, factors)
    rows = _rows(means, metric, factors)
    values = means[metric].to_numpy(dtype=float).reshape(-1, rows)
    if all_the_same(values[:2]):
        return pd.DataFrame(columns=COLUMNS)

    def indices(chosen: IntArray) -> FloatArray:
        """Both indices of every factor, (2, factors), from these rows."""
        a, b, mixed = values[:1, chosen], values[1:2, chosen], values[2:, None, chosen]
        found = stats.sobol_indices(func={"f_A": a, "f_B": b, "f_AB": mixed}, n=chosen.size)
        return np.reshape([found.first_order, found.total_order], (2, -1))

    every = np.arange(rows)
    first, total = indices(every)
    ends = stats.bootstrap(
        (every,),
        indices,
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=0,
    ).confidence_interval
    columns = (first, ends.low[0], ends.high[0], total, ends.low[1], ends.high[1])
    return pd.DataFrame(
        dict(zip(COLUMNS, (list(factors), *(one.tolist() for one in columns)), strict=True))
    )


def of_few_rows(table: pd.DataFrame, factors: Sequence[str]) -> list[str]:
    """A sentence if the design has so few rows that its intervals hold less often."""
    rows = table["point"].nunique() // (len(factors) + 2)
    if rows >= ENOUGH_ROWS:
        return []
    return [
        f"indices of {rows} rows of Saltelli's design are rough: with 16 rows their 90 % intervals"
        f" hold in 75 to 90 % of studies, and first-order ones may exceed total ones; from"
        f" {ENOUGH_ROWS} rows on they hold"
    ]


def _rows(means: pd.DataFrame, metric: str, factors: Sequence[str]) -> int:
    """The number of rows of each matrix of the design; ValueError if the settings are no such
    design.
    """
    rows, rest = divmod(len(means), len(factors) + 2)
    levels = means[list(factors)].to_numpy(dtype=float)
    both = np.hstack([levels[:rows], levels[rows : 2 * rows]])
    if rest or rows < 2 or not np.array_equal(saltelli(both), levels):
        raise ValueError(f"the {len(means)} settings that ran are not all of Saltelli's design")
    if means[metric].isna().any():
        raise ValueError(f"{int(means[metric].isna().sum())} settings have no {metric}")
    return rows
