"""The accuracy of a regression: R^2, not a share of correct answers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from simfl.study.figures import Bounds, bounds_of, with_unit
from simfl.study.targets import target_of

TASK = "task"
"""The column of a study's table with the task of a run's data (classification or regression)."""


def regression_sentence(runs: pd.DataFrame, metrics: Sequence[str]) -> list[str]:
    """A sentence that accuracies among these figures are R^2; says for how many runs if not for
    all.
    """
    named = [metric for metric in metrics if "accuracy" in metric]
    regressions = int((runs[TASK] == "regression").sum()) if TASK in runs else 0
    if not named or not regressions:
        return []
    whose = "the" if regressions == len(runs) else f"{regressions} of {len(runs)} runs'"
    return [
        f"accuracy is R^2, as {whose} data are a regression: 1 is every target met, 0 their mean,"
        " and worse is negative"
    ]


def is_r2(runs: pd.DataFrame, metric: str) -> bool:
    """Whether a figure of these runs is R^2 of a regression, in some of them at least."""
    of_regressions = TASK in runs and bool((runs[TASK] == "regression").any())
    return of_regressions and "accuracy" in metric and target_of(metric) is None


def bounds_in(runs: pd.DataFrame, metric: str) -> Bounds:
    """Between which values a figure of these runs lies: R^2 has no least one."""
    low, high = bounds_of(metric)
    return (-math.inf, high) if is_r2(runs, metric) else (low, high)


def axis_label(runs: pd.DataFrame, metric: str) -> str:
    """A figure's name and unit as `with_unit`, with R^2 in it where runs are regressions."""
    if TASK not in runs or "accuracy" not in metric:
        return with_unit(metric)
    of_regressions = with_unit(metric.replace("accuracy", "R^2"))
    if (runs[TASK] == "regression").all():
        return of_regressions
    return f"{with_unit(metric)} or {of_regressions}" if is_r2(runs, metric) else with_unit(metric)
