"""How far the settings of a search are from what its goal asks of them.

A search learns more from a setting that just misses a bound than from one that fails outright, so a
bound that is not kept to has a size: below 1 where the figure is known, from 1 to 2 where a target
was missed, by how far the model was from it, and 2 where nothing is known, or the run diverged. It
is above 0 exactly where `Bound.kept` does not say that the run keeps to the bound.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from simfl.common.arrays import BoolArray, FloatArray
from simfl.study.best import can_be_compared
from simfl.study.studyfile import Search
from simfl.study.targets import asked_by, target_of

WORST = 2.0
LEAST = 1e-9
"""Of a bound that is not kept to: `< 3` by exactly 3."""


def shortfalls(runs: pd.DataFrame, search: Search) -> pd.DataFrame:
    """A row per setting of these runs, a column per thing that is asked of it; 0 where it is met.

    Of every bound, and of every objective that it is known, the mean over the seeds. And that its
    figures can be compared with those of the other settings (`comparable.py`).
    """
    found = {name: _unknown(runs, name) for name in search.objectives}
    for metric, one in search.bounds().items():
        kept, _ = one.kept(runs, metric)
        values = runs[metric].to_numpy(dtype=float)
        excess = np.abs(values - one.value) / (abs(one.value) or 1.0)
        short = np.where(_is_known(runs, metric), excess / (1.0 + excess), _missed(runs, metric))
        found[f"{metric} {one}"] = np.where(kept, 0.0, np.maximum(short, LEAST))
    by_point = pd.DataFrame(found).groupby(runs["point"].to_numpy()).mean()
    alike = can_be_compared(runs.groupby("point").first(), search.figures)
    return by_point.assign(comparable=np.where(alike, 0.0, WORST))


def _is_known(runs: pd.DataFrame, metric: str) -> BoolArray:
    """Whether a figure of each run counts: of one that diverged, only a target that it met."""
    there = runs[metric].notna().to_numpy()
    known: BoolArray = (
        there if target_of(metric) else there & (runs["status"] != "diverged").to_numpy()
    )
    return known


def _unknown(runs: pd.DataFrame, metric: str) -> FloatArray:
    """How far each run is from having a figure at all."""
    found: FloatArray = np.where(_is_known(runs, metric), 0.0, _missed(runs, metric))
    return found


def _missed(runs: pd.DataFrame, metric: str) -> FloatArray:
    """Of runs without a target, 1 and by which share the best model fell short of it."""
    asked = asked_by(metric)
    lack = np.ones(len(runs))
    if asked is not None:
        _, figure, target = asked
        if figure == "accuracy" and target > 0.0:
            lack = 1.0 - runs["best_accuracy"].to_numpy(dtype=float) / target
        elif figure == "loss":
            lack = 1.0 - target / runs["loss"].to_numpy(dtype=float)
    lack = np.where(np.isfinite(lack), np.clip(lack, 0.0, 1.0), 1.0)
    diverged = (runs["status"] == "diverged").to_numpy()
    found: FloatArray = np.where(diverged, WORST, 1.0 + lack)
    return found
