"""The settings of a study: means over the seeds, and which columns tell settings apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from simfl.study.comparisons import half_width
from simfl.study.studyfile import short_names

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


def setting_names(means: pd.DataFrame, factors: Sequence[str]) -> list[str]:
    """What a chart calls each setting of `point_means`: its levels; numbers with their factor."""
    if not factors:
        return ["the scenario"] * len(means)
    rows = means[list(factors)].itertuples(index=False)
    if len(factors) == 1:
        return [_short(row[0]) for row in rows]
    names = short_names(factors)
    return [
        ", ".join(
            value if isinstance(value, str) else f"{name} {_short(value)}"
            for name, value in zip(names, row, strict=True)
        )
        for row in rows
    ]


def unit_of(metric: str) -> str:
    """A figure's name as an axis shows it: with the unit that its name ends in."""
    for ending, shown in (("_s", "s"), ("_j", "J"), ("_b", "B")):
        if metric.endswith(ending):
            return f"{metric.removesuffix(ending).replace('_', ' ')} ({shown})"
    if metric.endswith("accuracy"):
        return f"{metric.replace('_', ' ')} (share)"
    units = {"bytes": "B", "versions": "count", "staleness": "versions"}
    return f"{metric.replace('_', ' ')} ({units.get(metric, '1')})"


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
