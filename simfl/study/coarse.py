"""Accuracies on few test examples: equal values between seeds may be chance.

Three models that are right on 10 of 10 test examples are not models that always are: the next one
may miss an example. Student's interval of equal values has no width.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from simfl.common.arrays import FloatArray
from simfl.study.regression import is_r2

TEST_EXAMPLES = "test_examples"
"""The column of a study's table that holds of how many test examples accuracies are shares."""
SHARES = ("accuracy", "best_accuracy")
"""Figures that are shares of them, but for those of a regression."""
ROUNDING = 1e-12
"""Losses that differ by so little of their size are the same."""


def step_of(runs: pd.DataFrame, metric: str) -> float:
    """By how much one test example moves a figure of these runs, whose models differ.

    0 of a figure that is no share of them, and where all runs have the same loss.
    """
    if metric not in SHARES or TEST_EXAMPLES not in runs or runs.empty or is_r2(runs, metric):
        return 0.0
    if "loss" in runs and not differ(runs["loss"].to_numpy(dtype=float)[None]):
        return 0.0
    examples = int(runs[TEST_EXAMPLES].min())
    right = runs[metric].dropna() * examples
    if not examples or not np.allclose(right, right.round(), rtol=0.0, atol=1e-3):
        return 0.0  # R^2, where the table does not say what is a regression
    return 1.0 / examples


def differ(losses: FloatArray) -> bool:
    """Whether some row of losses (rows, runs) has different ones: other models, then."""
    spread = losses.max(axis=1) - losses.min(axis=1)
    return not bool((spread <= ROUNDING * np.abs(losses).max(axis=1)).all())


def deviation_of_equals(step: float) -> float:
    """The standard deviation that values which are all the same are taken to have.

    Half a `step`: no figure that has one of two neighbouring values has a larger one.
    """
    return step / 2.0
