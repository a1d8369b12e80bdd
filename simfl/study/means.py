"""Means of a study's settings over seeds, and the columns that distinguish settings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from simfl.common.arrays import FloatArray
from simfl.study.comparable import CAVEATS, least_step
from simfl.study.comparisons import CONFIDENCE, half_width
from simfl.study.few_test_examples import differ
from simfl.study.figure_text import R2
from simfl.study.figures import Bounds, bounds_of, cut, is_yes_or_no
from simfl.study.levels import short_names
from simfl.study.regression import TASK, bounds_in
from simfl.study.targets import (
    completed,
    ended_badly,
    ends,
    judged,
    median_and_bound,
    median_interval,
    target_of,
)
from simfl.study.yes_or_no import of_share

MOST_DIGITS = 17
"""Significant digits that distinguish any two numbers."""

_BEFORE_FACTORS, _AFTER_FACTORS = "folder", "status"


def factor_names(table: pd.DataFrame) -> list[str]:
    """The factors of a study's table of runs: the columns between `folder` and `status`."""
    columns = list(table.columns)
    return columns[columns.index(_BEFORE_FACTORS) + 1 : columns.index(_AFTER_FACTORS)]


def point_means(
    table: pd.DataFrame, factors: Sequence[str], metrics: Sequence[str]
) -> pd.DataFrame:
    """One row per setting: point, its factors, runs, caveats, and each metric's mean over seeds.

    `runs` counts those that completed, `diverged` those that diverged, `missing` the seeds that
    others have beside these; `reason` has why they ended, a line each. METRIC_runs counts `runs`
    and `diverged`, METRIC_count those that METRIC is known of (of a run that diverged, targets
    alone). METRIC_ci is half the width of Student's 95 % interval of the mean (of a figure that
    moves in steps and that all seeds agree in, that of `few_test_examples.py`), METRIC_low and
    METRIC_high its ends, cut to what the figure can be (`figures.cut`); NaN below two runs. Of a
    target that some runs missed there is no mean: METRIC_median is the median over all runs, or
    METRIC_above what that lies above, and from six runs on METRIC_median_low and
    METRIC_median_high are the ends of its interval (`targets.median_interval`). Where some settings
    are regressions and others are not, `r2` says of which of them an accuracy is R^2.
    """
    rows = []
    tasks_differ = TASK in table and (table[TASK] == "regression").nunique() > 1
    # A table of one's own may have runs without a seed.
    seeds = table["seed"].nunique() if "seed" in table else table.groupby("point").size().max()
    steps = {metric: least_step(judged(table, metric), metric) for metric in metrics}
    for point, runs in table.groupby("point", sort=True):
        row = {"point": point, **{name: runs[name].iloc[0] for name in factors}}
        row["runs"] = len(completed(runs))
        row["diverged"] = ended_badly(runs)
        row["missing"] = seeds - row["runs"] - row["diverged"]
        if "reason" in runs:
            row["reason"] = "\n".join(runs["reason"].fillna("").astype(str).unique())
        row |= {caveat.column: caveat.of(runs).iloc[0] for caveat in CAVEATS}
        if tasks_differ:
            row[R2] = row[TASK] == "regression"
        for metric in metrics:
            row |= _of_metric(runs, metric, steps[metric])
        rows.append(row)
    return pd.DataFrame(rows)


def _of_metric(of_setting: pd.DataFrame, metric: str, of_all: float) -> dict[str, Any]:
    """A setting's figures; `of_all` is the step of the metric over all settings."""
    runs = judged(of_setting, metric)
    every = runs[metric].to_numpy(dtype=float)
    values = every[~np.isnan(every)]
    median, above, median_ends = math.nan, math.nan, (math.nan, math.nan)
    if target_of(metric) is not None and values.size < every.size:
        shown, spent = values[:0], ends(runs, metric)
        median, above = median_and_bound(every, spent)
        median_ends = median_interval(every, spent, CONFIDENCE)
    else:
        shown = values
    one_model = (
        "loss" in runs and len(runs) and not differ(runs["loss"].to_numpy(dtype=float)[None])
    )
    step = 0.0 if one_model or is_yes_or_no(metric, shown) else of_all
    low, high = mean_interval(shown, metric, step=step, bounds=bounds_in(runs, metric))
    return {
        metric: float(shown.mean()) if shown.size else math.nan,
        f"{metric}_ci": half_width(shown, step=step),
        f"{metric}_low": low,
        f"{metric}_high": high,
        f"{metric}_count": values.size,
        f"{metric}_runs": len(completed(of_setting)) + ended_badly(of_setting)
        if target_of(metric) is None
        else len(runs),
        f"{metric}_median": median,
        f"{metric}_above": above,
        f"{metric}_median_low": median_ends[0],
        f"{metric}_median_high": median_ends[1],
    }


def mean_interval(
    values: FloatArray,
    metric: str,
    confidence: float = CONFIDENCE,
    step: float = 0.0,
    bounds: Bounds | None = None,
) -> Bounds:
    """Student's interval for the mean of a figure's `values`, cut to the figure's possible range.

    That is between `bounds`, by default those of the figure's name (`figures.bounds_of`).
    For a figure that says yes or no of each run, that of `yes_or_no.of_share`; for one that moves
    in steps and is always the same, that of `few_test_examples.py`. NaN below two values.
    """
    if values.size < 2:
        return math.nan, math.nan
    if is_yes_or_no(metric, values):
        return of_share(int(values.sum()), values.size, confidence)
    mean, half = float(values.mean()), half_width(values, confidence, step)
    return cut((mean - half, mean + half), bounds or bounds_of(metric), values)


def setting_names(means: pd.DataFrame, factors: Sequence[str]) -> list[str]:
    """Short names for the settings of `point_means`: their levels, numbers with their factor.

    Factors, and keys within a section, that all settings share are left out. Numbers have three
    digits, or as many as it takes to distinguish the settings.
    """
    if not factors:
        return ["the scenario"] * len(means)
    differing = [name for name in factors if means[name].nunique(dropna=False) > 1]
    told = differing or list(factors)[:1]
    settings = len(means[told].drop_duplicates())
    names = (_in_digits(means, told, digits) for digits in range(3, MOST_DIGITS))
    found = next((one for one in names if len(set(one)) == settings), None)
    return found or _in_digits(means, told, MOST_DIGITS)


def with_completed(names: Sequence[str], means: pd.DataFrame) -> list[str]:
    """Names of settings of `point_means`, followed by how many of their seeds' runs completed.

    If all of them completed, the name alone.
    """
    runs = means["runs"]
    seeds = runs + means["diverged"] + means["missing"]
    return [
        name if count == every else f"{name} ({count} of {every} completed)"
        for name, count, every in zip(names, runs.tolist(), seeds.tolist(), strict=True)
    ]


def _in_digits(means: pd.DataFrame, told: Sequence[str], digits: int) -> list[str]:
    """Names of settings by these factors, with numbers of this many digits."""
    columns = [_without_shared_keys([_short(one, digits) for one in means[name]]) for name in told]
    if len(told) > 1:
        for at, (short, name) in enumerate(zip(short_names(told), told, strict=True)):
            words = [isinstance(one, str) for one in means[name]]
            columns[at] = [
                text if is_word else f"{short} {text}"
                for text, is_word in zip(columns[at], words, strict=True)
            ]
    return [", ".join(row) for row in zip(*columns, strict=True)]


def levels_told_apart(levels: Iterable[Any]) -> dict[Any, Any]:
    """What a table shows for each level of a factor.

    The level itself, which tables show with four digits, or a text with more digits if levels would
    look the same.
    """
    known = list(dict.fromkeys(levels))
    numbers = [one for one in known if isinstance(one, float)]
    for digits in range(4, MOST_DIGITS + 1):
        if len({_short(one, digits) for one in numbers}) == len(numbers):
            break
    return {one: one if digits == 4 else _short(one, digits) for one in known}


def told_apart(table: pd.DataFrame, factors: Sequence[str]) -> pd.DataFrame:
    """A table with the levels of its factors replaced by those of `levels_told_apart`."""
    texts = {name: levels_told_apart(table[name].tolist()) for name in factors}
    return table.assign(
        **{name: [its.get(one, one) for one in table[name].tolist()] for name, its in texts.items()}
    )


def _without_shared_keys(levels: list[str]) -> list[str]:
    """Sections as one line of text (`studyfile.level`) without the keys that all of them share."""
    sections = {text: {one for one in text.split(" ") if "=" in one} for text in levels}
    keys = [one for one in sections.values() if one]
    shared = set.intersection(*keys) if len(keys) > 1 else set()
    short = {
        text: " ".join(one for one in text.split(" ") if one not in shared) or text
        for text in sections
    }
    told_apart = len(set(short.values())) == len(short)
    return [short[text] for text in levels] if told_apart else levels


def _short(value: Any, digits: int) -> str:
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)
