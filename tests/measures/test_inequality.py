"""Indices of inequality: their definitions, extremes and scale."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from simfl.measures.inequality import entropy, equity_ratio, gini, jain_index

INDICES: dict[Callable[..., float], tuple[float, float]] = {
    jain_index: (1.0, 0.25),
    gini: (0.0, 0.75),
    entropy: (1.0, 0.0),
    equity_ratio: (1.0, 0.0),
}
"""Values at equality and where one of four has everything."""


@pytest.mark.parametrize(
    ("index", "values"), INDICES.items(), ids=[index.__name__ for index in INDICES]
)
def test_the_extremes(index, values):
    """Equal numbers, and one alone."""
    assert index([3.0] * 4) == pytest.approx(values[0])
    assert index([0.0, 5.0, 0.0, 0.0]) == pytest.approx(values[1])


@pytest.mark.parametrize("index", INDICES)
def test_scale_and_order_do_not_matter(index):
    """Shares alone count."""
    numbers = np.array([1.0, 4.0, 2.0])

    assert index(7 * numbers[::-1]) == pytest.approx(index(numbers))


def test_values_by_hand():
    """(1, 3): Jain 16/20, Gini |1 - 3| 2 / (2 2 4), entropy of (1/4, 3/4) over ln 2, ratio 1/3."""
    assert jain_index([1, 3]) == pytest.approx(0.8)
    assert gini([3, 1]) == pytest.approx(0.25)
    shares = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75)) / math.log(2)
    assert entropy([1, 3]) == pytest.approx(shares)
    assert equity_ratio([1, 3]) == pytest.approx(1 / 3)


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("values", [[-1.0, 2.0], [-2.0, 1.0], [-1.0, 0.0], [0.0, 0.0]])
def test_what_has_no_shares_has_no_index(index, values):
    """Negative numbers, some or all, and nothing at all."""
    assert math.isnan(index(values))
