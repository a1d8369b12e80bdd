"""Figures that are wrong by orders of magnitude: milliseconds among seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from simfl.calibration.posterior import Posterior
from simfl.calibration.terms import Prior, Rows
from simfl.common.arrays import FloatArray
from simfl.scenario.yaml_source.error import ScenarioError

FAR = math.sqrt(1000.0)
"""A row that is off by more is nearer to a mix-up of thousandfold units than to the truth."""
SPREADS = 2.5
"""Where less than that is known, so many standard deviations of what is believed pass."""
FEWEST_OTHERS = 3
"""Rows of a device that can say of one more that it does not belong to them."""


def refuse_implausible(
    path: str, column: str, rows: Rows, prior: Prior, bases: Sequence[str]
) -> None:
    """Raises ScenarioError for the first row that is far from what the bases make likely."""
    limits = np.maximum(FAR, np.exp(SPREADS * prior.spread(rows)))
    expected = prior.expected(rows)
    off = np.maximum(rows.measured / expected, expected / rows.measured)
    for place in np.flatnonzero(off > limits)[:1]:
        line, thing = int(rows.line[place]), int(rows.thing[place])
        raise _error(
            path, line, column, rows.measured[place], expected[place], f"by {bases[thing]}"
        )


def refuse_stray(path: str, column: str, rows: Rows, fit: Posterior) -> None:
    """Raises ScenarioError for the row that is farthest from the fit, if it is too far."""
    predicted: FloatArray = (rows.amounts * np.exp(fit.logs[rows.thing])).sum(1)
    off = np.maximum(rows.measured / predicted, predicted / rows.measured)
    counts = np.bincount(rows.thing, minlength=len(fit.logs))
    off[counts[rows.thing] <= FEWEST_OTHERS] = 0.0
    worst = int(off.argmax())
    if off[worst] > FAR:
        whose = "by the other rows"
        line = int(rows.line[worst])
        raise _error(path, line, column, rows.measured[worst], predicted[worst], whose)


def _error(
    path: str, line: int, column: str, found: float, expected: float, whose: str
) -> ScenarioError:
    factor = found / expected
    direction = f"{factor:.3g} times" if factor > 1 else f"1 / {1 / factor:.3g} of"
    message = (
        f"found {found:.4g}, {direction} the {expected:.3g} that are likely {whose};"
        f" accepted: {column}, not another unit (or a base profile that is nearer)"
    )
    return ScenarioError(path, line, column, f"{found:.4g}", column, message)
