"""How far runs exceed their bounds.

An excess is below 1 if the figure is known; from 1 to 2 if a target was missed, by how far the
model was from it; and 2 if nothing is known or the run diverged. It is above 0 exactly if
`Bound.kept` does not say that the run meets the bound.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from simfl.common.arrays import BoolArray, FloatArray
from simfl.study.bound import Bound
from simfl.study.targets import asked_by, target_of

WORST = 2.0
LEAST = 1e-9
"""Smallest excess if a bound is not met, as for `< 3` with exactly 3."""


def excesses(runs: pd.DataFrame, bounds: Mapping[str, Bound]) -> pd.DataFrame:
    """A row per run and a column per bound, such as "time_s <= 3"."""
    found: dict[str, FloatArray] = {}
    for metric, one in bounds.items():
        kept, _ = one.kept(runs, metric)
        values = runs[metric].to_numpy(dtype=float)
        excess = np.abs(values - one.value) / (abs(one.value) or 1.0)
        beyond = np.where(is_known(runs, metric), excess / (1.0 + excess), missed(runs, metric))
        found[f"{metric} {one}"] = np.where(kept, 0.0, np.maximum(beyond, LEAST))
    return pd.DataFrame(found, index=runs.index)


def is_known(runs: pd.DataFrame, metric: str) -> BoolArray:
    """Whether each run's figure counts; for a run that diverged, only a target that it met."""
    there = runs[metric].notna().to_numpy()
    known: BoolArray = (
        there if target_of(metric) else there & (runs["status"] != "diverged").to_numpy()
    )
    return known


def missed(runs: pd.DataFrame, metric: str) -> FloatArray:
    """For runs without a target: 1 plus the share by which the best model fell short of it."""
    asked = asked_by(metric)
    lack = np.ones(len(runs))
    if asked is not None:
        _, figure, target = asked
        if figure == "accuracy" and target > 0.0 and "best_accuracy" in runs:
            lack = 1.0 - runs["best_accuracy"].to_numpy(dtype=float) / target
        elif figure == "loss":
            lack = 1.0 - target / runs["loss"].to_numpy(dtype=float)
    lack = np.where(np.isfinite(lack), np.clip(lack, 0.0, 1.0), 1.0)
    diverged = (runs["status"] == "diverged").to_numpy()
    found: FloatArray = np.where(diverged, WORST, 1.0 + lack)
    return found
