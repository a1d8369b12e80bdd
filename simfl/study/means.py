"""The settings of a study: means over the seeds, and which columns tell settings apart."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from simfl.study.comparisons import half_width

_BEFORE_FACTORS, _AFTER_FACTORS = "folder", "status"


def factor_names(table: pd.DataFrame) -> list[str]:
    """The factors of a study's table of runs: what stands between its folder and its status."""
    columns = list(table.columns)
    return columns[columns.index(_BEFORE_FACTORS) + 1 : columns.index(_AFTER_FACTORS)]


def point_means(
    table: pd.DataFrame, factors: Sequence[str], metrics: Sequence[str]
) -> pd.DataFrame:
    """One row per setting: point, its factors, runs, and each metric's mean over the seeds.

    `METRIC_ci` is half the width of Student's 95 % interval of the mean (NaN below two runs).
    """
    rows = []
    for point, runs in table.groupby("point", sort=True):
        row = {"point": point, **{name: runs[name].iloc[0] for name in factors}, "runs": len(runs)}
        for metric in metrics:
            values = runs[metric].dropna().to_numpy(dtype=float)
            row[metric] = float(values.mean()) if values.size else float("nan")
            row[f"{metric}_ci"] = half_width(values)
        rows.append(row)
    return pd.DataFrame(rows)
