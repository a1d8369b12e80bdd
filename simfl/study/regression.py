"""The accuracy of a regression: R^2, not a share of correct answers."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from simfl.study.figures import with_unit

TASK = "task"
"""The column of a study's table that says what a run's data are to be learnt for."""


def regression_sentence(runs: pd.DataFrame, metrics: Sequence[str]) -> list[str]:
    """That accuracies among these figures are R^2, and of how many runs where not of all."""
    named = [metric for metric in metrics if "accuracy" in metric]
    regressions = int((runs[TASK] == "regression").sum()) if TASK in runs else 0
    if not named or not regressions:
        return []
    whose = "the" if regressions == len(runs) else f"{regressions} of {len(runs)} runs'"
    return [
        f"accuracy is R^2, as {whose} data are a regression: 1 is every target met, 0 their mean,"
        " and worse is negative"
    ]


def axis_label(runs: pd.DataFrame, metric: str) -> str:
    """A figure's name and unit as `with_unit`, where all runs are regressions with R^2 in it."""
    if TASK in runs and (runs[TASK] == "regression").all():
        metric = metric.replace("accuracy", "R^2")
    return with_unit(metric)
