"""Which factor matters: main effects, and first-order Sobol indices of numeric factors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from simfl.study.comparisons import half_width, replications
from simfl.study.means import point_means

FloatArray = NDArray[np.float64]

MOST_BINS = 32
"""For sampled factors; fewer where there are fewer than their square of settings."""


def main_effects(
    table: pd.DataFrame, metric: str, factors: Sequence[str], within: Sequence[str] = ()
) -> pd.DataFrame:
    """What each level of each factor does on its own, all else being equal.

    The effect of a level is the mean, over the runs that share the seed, all other factors and
    `within` (keys that were sampled), of its difference to those runs' mean; ci is half the width
    of Student's 95 % interval over `replications`. One row per factor and level: blocks (groups of
    such runs), effect, ci. Groups in which a level or a figure is missing are left out; a factor
    without any whole group has no rows.
    """
    rows = []
    for factor in factors:
        others = ["seed", *within, *(name for name in factors if name != factor)]
        blocks = table.pivot(index=others, columns=factor, values=metric).dropna()
        if blocks.shape[1] < 2 or blocks.empty:
            continue
        effects = replications(blocks.sub(blocks.mean(axis=1), axis=0))
        for level in table[factor].drop_duplicates():
            values = effects[level].to_numpy(dtype=float)
            figures = {"blocks": len(blocks), "effect": float(values.mean())}
            rows.append({"factor": factor, "level": level, **figures, "ci": half_width(values)})
    return pd.DataFrame(rows, columns=["factor", "level", "blocks", "effect", "ci"])


def first_order_indices(table: pd.DataFrame, metric: str, factors: Sequence[str]) -> pd.DataFrame:
    """First-order Sobol indices: the share of the variance that a factor explains alone.

    S_i = Var(E[Y | X_i]) / Var(Y) over the settings of the study (Sobol 1993; Saltelli et al.,
    Global Sensitivity Analysis, 2008, Eq. 4.3), Y being the mean over a setting's seeds. It is
    estimated from the runs as they are: settings are grouped by the factor's levels, or by equally
    full bins where it was sampled (Plischke, Borgonovo, Smith, EJOR 226, 2013), and corrected for
    what so many groups explain by chance (epsilon squared; Kelley, PNAS 21, 1935), so that a factor
    without influence has an index of about 0, which may be negative. One row per numeric factor:
    index, low and high (90 % interval from leaving settings out, jackknife over tenths), groups,
    settings.
    """
    means = point_means(table, factors, [metric]).dropna(subset=metric)
    values = means[metric].to_numpy(dtype=float)
    rows = []
    for factor in factors:
        if not pd.api.types.is_numeric_dtype(means[factor]) or means[factor].nunique() < 2:
            continue
        groups = _groups(means[factor].to_numpy(dtype=float))
        index = _explained(values, groups)
        half = _jackknife(values, groups)
        rows.append(
            {
                "factor": factor,
                "index": index,
                "low": index - half,
                "high": index + half,
                "groups": len(np.unique(groups)),
                "settings": values.size,
            }
        )
    return pd.DataFrame(rows, columns=["factor", "index", "low", "high", "groups", "settings"])


def _groups(levels: FloatArray) -> NDArray[np.int64]:
    """The group of each setting: its level, or a bin of equally many settings."""
    distinct, group = np.unique(levels, return_inverse=True)
    if distinct.size <= max(2, levels.size // 2):
        return group.astype(np.int64)
    bins = min(MOST_BINS, max(2, math.isqrt(levels.size)))
    rank = np.argsort(np.argsort(levels, kind="stable"), kind="stable")
    return rank * bins // levels.size


def _explained(values: FloatArray, groups: NDArray[np.int64]) -> float:
    """Epsilon squared of the groups; NaN where nothing varies or a group has one setting."""
    count, size = len(np.unique(groups)), values.size
    total = float(((values - values.mean()) ** 2).sum())
    if total == 0.0 or size <= count:
        return math.nan
    within = sum(
        float(((values[groups == one] - values[groups == one].mean()) ** 2).sum())
        for one in np.unique(groups)
    )
    return 1.0 - (within / (size - count)) / (total / (size - 1))


def _jackknife(values: FloatArray, groups: NDArray[np.int64], parts: int = 10) -> float:
    """Half the width of a 90 % interval: 1.645 standard errors of the delete-a-group jackknife."""
    parts = min(parts, values.size)
    fold = np.arange(values.size) % parts
    left = [_explained(values[fold != one], groups[fold != one]) for one in range(parts)]
    spread = np.array(left) - np.mean(left)
    return float(1.645 * math.sqrt((parts - 1) / parts * float((spread**2).sum())))
