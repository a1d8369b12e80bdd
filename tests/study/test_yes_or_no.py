"""Differences of figures that say yes or no are no surer than their few seeds."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from simfl.study.comparisons import paired_differences
from simfl.study.effects import main_effects
from simfl.study.figure_text import difference_in_cell
from simfl.study.yes_or_no import of_difference, of_share, p_value

FIGURE = "equilibrium_reached.reached"


def _runs(base: list[float], own: list[float]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "point": [0] * len(base) + [1] * len(own),
            "seed": [*range(len(base)), *range(len(own))],
            "rule": ["base"] * len(base) + ["own"] * len(own),
            FIGURE: [*base, *own],
        }
    )


def test_five_times_yes_against_no_is_not_told_apart() -> None:
    """A sign test of five pairs has p = 1/16; Student's interval would be 1 ±0, and p 0."""
    (found,) = paired_differences(_runs([0.0] * 5, [1.0] * 5), FIGURE, "rule", "base").to_dict(
        "records"
    )

    assert found["difference"] == 1.0
    assert (found["ci_low"], found["ci_high"]) == pytest.approx((2 * 0.0125**0.2 - 1, 1.0))
    assert (found["verdict"], found["p_value"]) == ("undecided", pytest.approx(1 / 16))
    assert difference_in_cell(found) == "1.0 (-0.2 to 1.0)"


def test_always_the_same_answer_is_not_equal() -> None:
    """Three seeds of yes on both sides leave room for others; eight against none do not."""
    (alike,) = paired_differences(_runs([1.0] * 3, [1.0] * 3), FIGURE, "rule", "base").to_dict(
        "records"
    )
    (apart,) = paired_differences(_runs([0.0] * 8, [1.0] * 8), FIGURE, "rule", "base").to_dict(
        "records"
    )

    assert alike["verdict"] == "undecided"
    assert alike["ci_high"] == pytest.approx(1 - 0.0125 ** (1 / 3))
    assert apart["verdict"] == "higher"


def test_figures_that_are_amounts_keep_students_interval() -> None:
    """Whole seconds that happen to be 0 and 1 are no yes or no."""
    runs = _runs([0.0] * 5, [1.0] * 5).rename(columns={FIGURE: "time_s"})

    (found,) = paired_differences(runs, "time_s", "rule", "base").to_dict("records")

    assert (found["ci_low"], found["ci_high"], found["verdict"]) == (1.0, 1.0, "higher")


@pytest.mark.parametrize("count", [2, 3, 5, 10, 20])
@pytest.mark.parametrize(("own", "base"), [(0.9, 0.6), (0.9, 0.9), (0.98, 0.02), (0.5, 0.5)])
def test_the_interval_holds_the_difference_as_often_as_it_says(
    own: float, base: float, count: int
) -> None:
    """500 times so many pairs with a known difference: at least 95 % hold it."""
    rng = np.random.default_rng(count)
    yes = rng.random((500, count)) < own
    no = rng.random((500, count)) < base
    ends = np.array([of_difference(one, 0.95) for one in yes.astype(float) - no])

    held = (ends[:, 0] <= own - base) & (own - base <= ends[:, 1])
    assert held.mean() >= 0.94


def test_shares_and_tests_are_scipys() -> None:
    """Clopper and Pearson's interval, and McNemar's test as a binomial one."""
    exact = stats.binomtest(7, 9).proportion_ci(0.9, "exact")
    assert of_share(7, 9, 0.9) == pytest.approx((exact.low, exact.high))

    differences = np.array([1.0, 1.0, 1.0, -1.0, 0.0, 0.0, 1.0])
    assert p_value(differences) == pytest.approx(stats.binomtest(4, 5).pvalue)
    assert p_value(np.zeros(3)) == 1.0


def test_an_effect_that_never_varies_has_no_interval() -> None:
    """Three times yes under one rule and no under the other: 0.5 ±0 would be certain."""
    runs = _runs([0.0] * 3, [1.0] * 3)

    effects = main_effects(runs, FIGURE, ["rule"])

    assert effects["effect"].tolist() == [-0.5, 0.5]
    assert all(math.isnan(one) for one in effects["ci"])
    varied = main_effects(_runs([0.0, 0.0, 1.0], [1.0] * 3), FIGURE, ["rule"])
    assert (varied["ci"] > 0).all()
