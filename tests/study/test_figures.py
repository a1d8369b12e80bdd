"""Intervals stay where a figure can be, and hold the mean as often as before."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from simfl.study.figure_text import in_cell, with_interval
from simfl.study.figures import bounds_of, with_unit
from simfl.study.means import mean_interval, point_means


@pytest.mark.parametrize(
    ("metric", "bounds"),
    [
        ("accuracy", (0, 1)),
        ("jain_participation", (0, 1)),
        ("participation.jain_index", (0, 1)),
        ("waiting.idle_time_share", (0, 1)),
        ("edge_participation.share_min", (0, 1)),
        ("collaborative_fairness.reward_min", (0, 1)),
        ("collaborative_fairness.fairness", (-100, 100)),
        ("time_s", (0, math.inf)),
        ("energy_to_accuracy_0.5_j", (0, math.inf)),
        ("round_latency.latency_mean_s", (0, math.inf)),
        ("estimation_error.mean_error_s", (-math.inf, math.inf)),
        ("core_stability.coalitions_margin", (-math.inf, math.inf)),
    ],
)
def test_what_a_figure_can_be(metric: str, bounds: tuple[float, float]) -> None:
    """By the table of figures, and for measures by what their names end in."""
    assert bounds_of(metric) == bounds


def test_an_interval_of_a_share_stays_in_zero_to_one() -> None:
    """0.97 and 0.99: Student's interval of two seeds would reach from 0.85 to 1.11."""
    low, high = mean_interval(np.array([0.97, 0.99]), "accuracy")

    assert (low, high) == (pytest.approx(0.98 - 0.127062, abs=1e-6), 1.0)
    runs = pd.DataFrame({"point": [0, 0], "accuracy": [0.97, 0.99]})
    (row,) = point_means(runs, [], ["accuracy"]).to_dict("records")
    assert in_cell(row, "accuracy") == "0.98 (0.85 to 1.00)"


def test_an_interval_of_a_time_stays_above_zero() -> None:
    """1 and 3 s: Student's interval would begin at -10.7 s."""
    low, high = mean_interval(np.array([1.0, 3.0]), "time_to_accuracy_0.5_s")

    assert (low, high) == (0.0, pytest.approx(2 + 12.706205, rel=1e-6))


def test_an_interval_of_a_correlation_in_percent_stays_below_100() -> None:
    """98 and 99: Student's interval of two seeds would reach from 92.1 to 104.9."""
    low, high = mean_interval(np.array([98.0, 99.0]), "collaborative_fairness.fairness")

    assert (low, high) == (pytest.approx(98.5 - 6.353102, abs=1e-6), 100.0)


def test_always_yes_is_not_certain() -> None:
    """Five of five: Clopper and Pearson's interval begins at 0.025^(1/5); two of four is wide."""
    low, high = mean_interval(np.ones(5), "equilibrium_reached.reached")

    assert (low, high) == (pytest.approx(0.025**0.2), 1.0)
    some = mean_interval(np.array([0.0, 1.0, 1.0, 0.0]), "reached")
    assert some == (pytest.approx(0.0676, abs=1e-4), pytest.approx(0.9324, abs=1e-4))
    assert mean_interval(np.zeros(3), "reached")[0] == 0.0
    assert mean_interval(np.ones(5), "jain_participation") == (1.0, 1.0)


def test_a_large_mean_is_told_as_closely_as_its_interval() -> None:
    """In four digits it would lie 45 million beside itself."""
    assert with_interval(512345678901.0, 1.1e6) == "5.123457e+11 ±1.1e+06"
    assert with_interval(123456.0, 0.0) == "1.235e+05 ±0"


def test_large_amounts_are_cut_too() -> None:
    """Millions of bytes, which cannot be negative."""
    runs = pd.DataFrame({"point": [0, 0], "bytes": [1e7, 3e7]})

    (row,) = point_means(runs, [], ["bytes"]).to_dict("records")

    assert in_cell(row, "bytes") == "2e+07 (0 to 1.471e+08)"


def test_a_value_beyond_a_bound_says_that_it_is_none() -> None:
    """The accuracy of a regression is R^2, which may be negative."""
    low, high = mean_interval(np.array([-0.1, 0.9]), "accuracy")

    assert low < -1.0
    assert high == 1.0


def test_an_interval_of_r2_goes_below_zero_though_no_value_does() -> None:
    """It may be negative with other seeds: at 1 it is cut, at 0 it is not."""
    runs = pd.DataFrame({"point": [0, 0], "accuracy": [0.1, 0.9], "task": "regression"})

    (row,) = point_means(runs, [], ["accuracy"]).to_dict("records")

    assert row["accuracy_low"] < -4.0 and row["accuracy_high"] == 1.0
    assert in_cell(row, "accuracy").startswith("0.5 (-4.6 to 1.0)")


def test_cutting_costs_no_coverage() -> None:
    """1000 times three draws: the cut interval holds the true mean whenever Student's does."""
    rng = np.random.default_rng(1)
    draws = {
        ("accuracy", 4 / 5): rng.beta(4.0, 1.0, (1000, 3)),
        ("time_s", 1.0): rng.exponential(1.0, (1000, 3)),
    }
    for (metric, mean), samples in draws.items():
        cut = np.array([mean_interval(one, metric) for one in samples])
        whole = np.array([mean_interval(one, "anything") for one in samples])

        def covered(ends: np.ndarray, mean: float = mean) -> np.ndarray:
            return (ends[:, 0] <= mean) & (mean <= ends[:, 1])

        assert (covered(cut) == covered(whole)).all()
        assert covered(cut).mean() > 0.85
        assert (cut[:, 0] > whole[:, 0]).any() and (cut[:, 0] >= 0).all()


def test_a_mean_over_some_of_the_runs_says_over_how_many() -> None:
    """A measure that is not defined for every run."""
    runs = pd.DataFrame({"point": [0] * 3, "equity.gini": [0.2, math.nan, 0.4]})

    (row,) = point_means(runs, [], ["equity.gini"]).to_dict("records")

    assert in_cell(row, "equity.gini").endswith("(2/3)")


@pytest.mark.parametrize(
    ("metric", "label"),
    [
        ("time_s", "time (s)"),
        ("bytes", "bytes (B)"),
        ("staleness", "staleness (versions)"),
        ("worst_client_accuracy", "worst client accuracy (share)"),
        ("bytes_to_accuracy_0.5_b", "bytes to accuracy 0.5 (B)"),
        ("equity.gini", "equity.gini (1)"),
    ],
)
def test_an_axis_names_the_unit(metric: str, label: str) -> None:
    """From the table of figures, or from the ending of the name."""
    assert with_unit(metric) == label
