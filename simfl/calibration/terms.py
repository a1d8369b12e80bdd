"""Linear models of measurements: sums of terms, each an amount times one unknown value.

Seconds of a training step are operations of each kind times the seconds per operation, plus terms
for bytes and steps; seconds of a transfer are bits and round trips; watts of training are those of
computing and of waiting, each times its share of the time. A figure in a profile is a term's value
or its inverse: seconds per operation are given there as operations per second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.common.arrays import FloatArray, IntArray

LEVEL = 0.9
"""The level of every interval."""
ENDS = ((1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0)
"""The quantiles of an interval."""
_NORMAL = 1.6448536269514722
"""The upper such quantile of the standard normal distribution."""


def sigma(factor: float) -> float:
    """Standard deviation of the logarithm whose 90 % interval reaches from a figure divided by
    `factor` to the figure times `factor`.
    """
    return math.log(factor) / _NORMAL


@dataclass(frozen=True)
class Term:
    """One term: `key` is its figure's path in a profile, in `unit`.

    A figure is an amount per second, or (`per_unit`) the term's value itself.
    """

    name: str
    key: str
    unit: str
    per_unit: bool = False

    def log(self, figure: float) -> float:
        """The logarithm of the term's value, from a figure as it stands in a profile."""
        return math.log(figure) if self.per_unit else -math.log(figure)


@dataclass(frozen=True, eq=False)
class Prior:
    """The prior of several things (devices, links), before any row is read.

    The logarithms of the terms' values are normal, with `mean` (things, terms) and `covariance`
    (things * terms, things * terms). The relative error of the sum has the median `scatter`, and
    `scatter_spread` is the standard deviation of its logarithm.
    """

    terms: Sequence[Term]
    mean: FloatArray
    covariance: FloatArray
    scatter: float
    scatter_spread: float

    def expected(self, rows: Rows) -> FloatArray:
        """The measured values that the means predict for rows."""
        total: FloatArray = (rows.amounts * np.exp(self.mean[rows.thing])).sum(1)
        return total

    def spread(self, rows: Rows) -> FloatArray:
        """Standard deviations of the logarithm of these predictions."""
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

    `thing` is the index of what each row was measured on, `subject` that of what was done: a
    model's training.
    """

    line: IntArray
    thing: IntArray
    subject: IntArray
    amounts: FloatArray
    measured: FloatArray

    def __len__(self) -> int:
        return len(self.measured)

    def only(self, chosen: NDArray[np.bool_] | IntArray) -> Rows:
        """Some of the rows, by a mask or by their indices."""
        return Rows(
            self.line[chosen],
            self.thing[chosen],
            self.subject[chosen],
            self.amounts[chosen],
            self.measured[chosen],
        )
