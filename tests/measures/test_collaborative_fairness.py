"""Collaborative fairness: correlation, bounds, and the order of losses."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from simfl.measures.collaborative_fairness import (
    CollaborativeFairness,
    ordered_pairs,
    pearson_percent,
    within_bounds,
)

C = np.array([1.0, 9.0, 11.0])
REWARD = np.array([99.0, 99.2, 99.3])


def test_the_papers_example() -> None:
    """Contributions 1, 9, 11 and rewards 99, 99.2, 99.3 correlate by 98.97433 percent."""
    assert pearson_percent(C, REWARD) == pytest.approx(98.97433, abs=5e-6)


def test_bounds_of_the_papers_example() -> None:
    """Upper bounds 50.15, 54.15, 55.15: the first two are over-rewarded, the best is exempt."""
    assert within_bounds(C, REWARD).tolist() == [False, False, True]


def test_rewards_within_their_bounds() -> None:
    """c < reward < (c + best reward) / 2, both strictly."""
    contribution = np.array([40.0, 50.0, 60.0])

    assert within_bounds(contribution, np.array([59.0, 64.0, 80.0])).tolist() == [True] * 3
    assert within_bounds(contribution, np.array([60.0, 65.0, 80.0])).tolist() == [
        False,
        False,
        True,
    ]
    assert within_bounds(contribution, np.array([40.0, 51.0, 80.0])).tolist() == [False, True, True]
    assert within_bounds(contribution, np.array([41.0, 49.0, 59.0])).tolist() == [
        True,
        False,
        False,
    ]


def test_of_several_best_rewards_the_best_contributors_are_exempt() -> None:
    """Equal rewards for all are no bounded fairness; equal best contributors are."""
    equal = within_bounds(np.array([10.0, 20.0, 30.0]), np.full(3, 50.0))
    twins = within_bounds(np.array([10.0, 30.0, 30.0]), np.array([20.0, 50.0, 50.0]))

    assert equal.tolist() == [False, False, True]
    assert twins.tolist() == [True, True, True]


@pytest.mark.parametrize(("c", "reward"), [(C, np.full(3, 0.9)), (np.full(3, 0.3), REWARD)])
def test_without_variance_there_is_no_correlation(c: Any, reward: Any) -> None:
    """Neither 0 nor 100: NaN, and no warning."""
    assert math.isnan(pearson_percent(c, reward))


def test_pairs_are_ordered_where_the_better_contributor_has_the_smaller_loss() -> None:
    """One of the pairs (2,1), (3,1), (3,2) is in the wrong order; ties count in both directions."""
    assert ordered_pairs(C, np.array([0.5, 0.7, 0.4])) == pytest.approx(2 / 3)
    assert ordered_pairs(np.ones(2), np.array([0.5, 0.7])) == 0.5


def test_a_run_without_contributions_has_no_figures() -> None:
    """A timing-only run learns nothing."""
    run: Any = SimpleNamespace(clients=pd.DataFrame({"client": [0, 1]}))

    assert CollaborativeFairness().compute(run) == {}
