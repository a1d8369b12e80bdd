"""Learning curves of settings over time, joules or bytes.

Between two evaluations a run's curve is a straight line. A mean over seeds is drawn only where all
seeds have values: from the latest of their first evaluations to the earliest of their last ones.
Beyond that, the mean would only represent the remaining seeds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from simfl.common.arrays import FloatArray
from simfl.common.suggestion import nearest
from simfl.study.comparisons import CONFIDENCE
from simfl.study.figures import Bounds
from simfl.study.means import mean_interval

PLACES = {
    "time_s": "time_s",
    "client_energy_j": "client_energy_j",
    "bytes": "bytes",
    "versions": "version",
    "client_active_j": "client_active_j",
    "server_energy_j": "server_energy_j",
    "energy_j": "energy_j",
}
"""Costs that grow during a run, with their columns in the rounds table."""

HEIGHTS = ("accuracy", "loss")
"""Figures of a run's evaluations."""

Curve = tuple[FloatArray, FloatArray]
"""x and y values, each of shape (evaluations,), in the order of the run."""


class NotDrawable(ValueError):
    """No such curve, or no such picture format."""


def curve_of(rounds: pd.DataFrame, x: str, y: str) -> Curve:
    """One run's curve from its rounds table; empty without evaluations.

    Evaluations without a finite value are left out, as the last loss of a run that diverged.
    """
    scored = rounds[np.isfinite(rounds[y].to_numpy(dtype=float))]
    return scored[PLACES[x]].to_numpy(dtype=float), scored[y].to_numpy(dtype=float)


def check_axes(x: str, y: str) -> None:
    """Raises `NotDrawable` for names that no curve has."""
    for name, accepted in ((x, tuple(PLACES)), (y, HEIGHTS)):
        if name not in accepted:
            guess = nearest(name, accepted) or ";"
            raise NotDrawable(f"no curve has {name!r}{guess} accepted: {', '.join(accepted)}")


def mean_curve(
    curves: Sequence[Curve],
    x: str,
    y: str,
    confidence: float = CONFIDENCE,
    step: float = 0.0,
    bounds: Bounds | None = None,
) -> pd.DataFrame:
    """The mean of runs' curves at each x where one of them was evaluated and all have values.

    Columns: `x`, `y`, `y`_low and `y`_high, the last two being the `mean_interval` at that x.
    """
    columns = [x, y, f"{y}_low", f"{y}_high"]
    if not curves or not all(places.size for places, _ in curves):
        return pd.DataFrame(columns=columns, dtype=float)
    begin = max(places[0] for places, _ in curves)
    end = min(places[-1] for places, _ in curves)
    every = np.unique(np.concatenate([places for places, _ in curves]))
    where = every[(every >= begin) & (every <= end)]
    values = np.stack([np.interp(where, *curve) for curve in curves])
    ends = [mean_interval(column, y, confidence, step, bounds) for column in values.T]
    low, high = np.reshape(ends, (-1, 2)).T
    found = (where, values.mean(axis=0), low, high)
    return pd.DataFrame(dict(zip(columns, found, strict=True)))
