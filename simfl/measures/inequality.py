"""Indices of inequality and variation: Jain, Gini, entropy, equity ratio, and COV."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def jain_index(values: ArrayLike) -> float:
    """(sum x)^2 / (n sum x^2): 1 means equal, 1/n means that a single one has everything.

    NaN if some x is negative or all are 0.

    Source: Jain, Chiu, Hawe, DEC technical report 301, 1984.
    """
    x = np.asarray(values, dtype=float)
    squares = float((x**2).sum())
    if x.min() < 0 or squares == 0:
        return float("nan")
    return float(x.sum()) ** 2 / (x.size * squares)


def gini(values: ArrayLike) -> float:
    """sum_ij |x_i - x_j| / (2 n sum x): 0 means equal; NaN if some x is negative or all are 0.

    Source: Gini, "Variabilità e mutabilità", 1912.
    """
    x = np.sort(np.asarray(values, dtype=float))
    if x[0] < 0 or x.sum() == 0:
        return float("nan")
    ranks = np.arange(1, x.size + 1)
    return float(((2 * ranks - x.size - 1) * x).sum() / (x.size * x.sum()))


def entropy(values: ArrayLike) -> float:
    """Shannon entropy of the shares x_i / sum x, divided by its maximum ln n: 1 means equal.

    NaN if some x is negative or all are 0; 1 for a single number.
    """
    x = np.asarray(values, dtype=float)
    if x.min() < 0 or x.sum() == 0:
        return float("nan")
    if x.size == 1:
        return 1.0
    shares = x[x > 0] / x.sum()
    return float(-(shares * np.log(shares)).sum() / np.log(x.size))


def equity_ratio(values: ArrayLike) -> float:
    """Smallest over largest: 1 means equal; NaN if some x is negative or all are 0."""
    x = np.asarray(values, dtype=float)
    if x.min() < 0 or x.max() == 0:
        return float("nan")
    return float(x.min() / x.max())


def coefficient_of_variation(values: ArrayLike) -> float:
    """Standard deviation (population) over mean: 0 means equal; NaN without values."""
    x = np.asarray(values, dtype=float)
    return float(x.std() / x.mean()) if x.size else float("nan")
