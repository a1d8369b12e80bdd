"""Linear models of measurements: sums of terms, each an amount times one unknown value.

Seconds of a training step are operations of each kind times the seconds that one of them takes,
and bytes, and steps; seconds of a transfer are bits and round trips; watts are idle power and what
comes on top. A figure in a profile is a term's value, or its inverse: seconds per operation there
are operations per second here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.common.arrays import FloatArray, IntArray

LEVEL = 0.9
"""Of every interval."""
ENDS = ((1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0)
"""Its quantiles."""
_NORMAL = 1.6448536269514722
"""The upper one of a standard normal."""


def sigma(factor: float) -> float:
    """Standard deviation of the logarithm whose 90 % interval is a figure divided by, and times,
    `factor`."""
    return math.log(factor) / _NORMAL


@dataclass(frozen=True)
class Term:
    """One term: `key` is its figure's path in a profile, in `unit`.

    A figure is in units of the amount per second, or (`per_unit`) the term's value itself.
    """

    name: str
    key: str
    unit: str
    per_unit: bool = False

    def log(self, figure: float) -> float:
        """The logarithm of the term's value, of a figure as it stands in a profile."""
        return math.log(figure) if self.per_unit else -math.log(figure)


@dataclass(frozen=True, eq=False)
class Prior:
    """What is believed of several things (devices, links) before any row is read.

    The logarithms of the terms' values are normal, with `mean` (things, terms) and `covariance`
    (things * terms, the same). The relative error of the sum has the median `scatter` and
    `scatter_spread` as the standard deviation of its logarithm.
    """

    terms: Sequence[Term]
    mean: FloatArray
    covariance: FloatArray
    scatter: float
    scatter_spread: float

    def expected(self, rows: Rows) -> FloatArray:
        """What would be measured in rows by the means."""
        total: FloatArray = (rows.amounts * np.exp(self.mean[rows.thing])).sum(1)
        return total

    def spread(self, rows: Rows) -> FloatArray:
        """Standard deviations of the logarithm of what would be measured in rows."""
        parts = rows.amounts * np.exp(self.mean[rows.thing])
        shares = parts / parts.sum(1, keepdims=True)
        things, terms = self.mean.shape
        blocks = self.covariance.reshape(things, terms, things, terms)
        own = blocks[rows.thing, :, rows.thing, :]
        spread: FloatArray = np.sqrt(
            np.einsum("rs,rst,rt->r", shares, own, shares) + self.scatter**2
        )
        return spread


@dataclass(frozen=True, eq=False)
class Rows:
    """Measured rows as arrays: `amounts` (rows, terms), `measured` (rows) and the file's `line`.

    `thing` numbers what each row was measured on, `subject` with what: a model's training.
    """

    line: IntArray
    thing: IntArray
    subject: IntArray
    amounts: FloatArray
    measured: FloatArray

    def __len__(self) -> int:
        return len(self.measured)

    def only(self, chosen: NDArray[np.bool_] | IntArray) -> Rows:
        """Some of the rows, by a mask or by their places."""
        return Rows(
            self.line[chosen],
            self.thing[chosen],
            self.subject[chosen],
            self.amounts[chosen],
            self.measured[chosen],
        )
