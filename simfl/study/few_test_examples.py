"""Figures that move in steps: equal values for several seeds may be chance.

Three models that are right on all of 10 test examples are not always right: each may miss the next
example; and three runs that meet a target in version 20 may meet it in the next one with other
seeds. Yet Student's interval for equal values has no width.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from simfl.common.arrays import FloatArray
from simfl.study.regression import is_r2

TEST_EXAMPLES = "test_examples"
"""The column of a study's table with the number of test examples behind the accuracies."""
SHARES = ("accuracy", "best_accuracy")
"""Figures that are shares of the test examples, except in a regression."""
ROUNDING = 1e-12
"""Values count as equal if they differ by less than this share of their size."""


def step_of(runs: pd.DataFrame, metric: str) -> float:
    """How much one test example changes a figure of these runs (of the run with fewest).

    0 if the figure is not a share of the test examples, or if all runs have the same loss (the same
    model).
    """
    if metric not in SHARES or TEST_EXAMPLES not in runs or runs.empty or is_r2(runs, metric):
        return 0.0
    if "loss" in runs and not differ(runs["loss"].to_numpy(dtype=float)[None]):
        return 0.0
    examples = int(runs[TEST_EXAMPLES].min())
    right = (runs[metric] * runs[TEST_EXAMPLES]).dropna()
    if not examples or not np.allclose(right, right.round(), rtol=0.0, atol=1e-3):
        return 0.0  # R^2, where the table does not say what is a regression
    return 1.0 / examples


def differ(losses: FloatArray) -> bool:
    """Whether any row of `losses` (rows, runs) has different losses, and thus different models."""
    spread = losses.max(axis=1) - losses.min(axis=1)
    return not bool((spread <= ROUNDING * np.abs(losses).max(axis=1)).all())


def deviation_of_equals(step: float) -> float:
    """The standard deviation that equal values are assumed to have.

    It is half a `step`: a figure that takes one of two neighbouring values cannot have a larger
    one.
    """
    return step / 2.0
