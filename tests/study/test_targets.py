"""What is reported about a target that some runs missed."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from simfl.study.comparisons import paired_differences
from simfl.study.effects import first_order_indices, main_effects, not_explained
from simfl.study.figure_text import in_cell, of_run, reached
from simfl.study.means import point_means
from simfl.study.pareto import study_front, unranked
from simfl.study.targets import median_and_bound, median_interval, target_of
from tests.study.censored import MISSED, TARGET, censored_runs


def settings(runs: pd.DataFrame) -> dict[str, dict]:
    """The rows of `point_means` by their selection."""
    means = point_means(runs, ["selection"], ["accuracy", TARGET])
    return {row["selection"]: row for row in means.to_dict("records")}


def against_oort(runs: pd.DataFrame) -> pd.DataFrame:
    """The paired comparisons, by selection."""
    found = paired_differences(runs, TARGET, "selection", "oort", ["selection"])
    return found.set_index("selection")


def test_there_is_a_mean_only_where_all_runs_met_the_target() -> None:
    """Not the 2.0 s of the one run of three that did, beside the 2.5 s of two of three."""
    rows = settings(censored_runs())

    assert [math.isnan(rows[name][TARGET]) for name in ("own", "oort", "random")] == [1, 1, 0]
    assert [reached(rows[name], TARGET) for name in ("own", "oort", "random")] == [
        "1/3",
        "2/3",
        "3/3",
    ]
    assert rows["random"][TARGET] == pytest.approx((2.2 + 2.5 + 2.9) / 3)


def test_otherwise_there_is_a_median_or_a_bound() -> None:
    """Two of three: the median, 2.6 s. One of three: more than the 3 s that the others ran."""
    rows = settings(censored_runs())

    assert in_cell(rows["oort"], TARGET) == "median 2.6"
    assert in_cell(rows["own"], TARGET) == "> 3"
    assert rows["own"][f"{TARGET}_above"] == 3.0


@pytest.mark.parametrize(
    ("values", "ends", "median", "above"),
    [
        ([1.0, 2.0, MISSED], [5.0, 5.0, 5.0], 2.0, MISSED),
        # It ended before the others were there: it may have been the first, or the last.
        ([2.0, 4.0, MISSED], [5.0, 5.0, 1.0], MISSED, 2.0),
        ([MISSED, MISSED, MISSED], [3.0, 1.0, 2.0], MISSED, 2.0),
        ([1.0, MISSED], [5.0, 5.0], MISSED, 3.0),
        ([1.0, 2.0, 3.0, MISSED], [5.0] * 4, 2.5, MISSED),
    ],
)
def test_a_median_is_what_every_end_of_the_missing_runs_agrees_on(
    values: list[float], ends: list[float], median: float, above: float
) -> None:
    """Whether they would have met the target at once or never; otherwise its lowest value."""
    found = median_and_bound(np.array(values), np.array(ends))

    assert found == pytest.approx((median, above), nan_ok=True)


def test_a_comparison_has_no_difference_unless_all_runs_met_the_target() -> None:
    """No mean, no percent, no verdict; not even over the pairs in which both did."""
    found = against_oort(censored_runs())

    for selection in ("own", "random"):
        row = found.loc[selection]
        assert row[["baseline_mean", "mean", "difference", "ci_low", "relative"]].isna().all()
        assert row[["effect_size", "p_value"]].isna().all()
        assert (row["pairs"], row["verdict"]) == (3, "not all reached")
    assert found.loc["own", ["reached", "baseline_reached"]].tolist() == [1, 2]


def test_a_censored_pair_still_says_who_was_first() -> None:
    """Own was there after 2 s, which oort never was in 3 s; the other two pairs went to oort."""
    found = against_oort(censored_runs())

    assert found.loc["own", ["first", "behind"]].tolist() == [1, 2]
    assert found.loc["random", ["first", "behind"]].tolist() == [1, 2]


def test_a_pair_is_undecided_where_the_other_was_not_watched_for_as_long() -> None:
    """Oort's first run ended after 1.5 s, before own's 2 s; two that missed it say nothing."""
    runs = censored_runs()
    runs.loc[runs["selection"] == "oort", ["time_s", TARGET]] = [1.5, MISSED]

    assert against_oort(runs).loc["own", ["first", "behind"]].tolist() == [0, 0]


def test_a_target_that_all_runs_met_is_compared_as_any_figure() -> None:
    """With differences and a verdict."""
    runs = censored_runs()
    runs[TARGET] = [2.0, 2.1, 2.2, 2.5, 2.6, 2.7, 3.0, 3.0, 3.0]

    row = against_oort(runs).loc["own"]

    assert row["difference"] == pytest.approx(0.5)
    assert row["relative"] == pytest.approx(0.5 / 2.1)
    assert row["verdict"] == "higher"


def test_a_run_that_diverged_missed_its_target() -> None:
    """It is no run less, which would make the others look as if they always got there."""
    runs = censored_runs()
    runs.loc[(runs["selection"] == "own") & (runs["seed"] > 1), "status"] = "diverged"

    row = settings(runs)["own"]

    assert reached(row, TARGET) == "1/3"
    assert math.isnan(row[TARGET])
    assert (row["runs"], row["accuracy"]) == (1, pytest.approx(0.31))
    assert against_oort(runs).loc["own", "pairs"] == 3


def test_a_run_that_was_never_evaluated_did_not_miss_its_target() -> None:
    """Nobody knows; a run that diverged before missed it."""
    runs = censored_runs()
    own = runs["selection"] == "own"
    runs.loc[own, ["accuracy", TARGET]] = math.nan
    runs.loc[own & (runs["seed"] == 3), "status"] = "diverged"

    row, pair = settings(runs)["own"], against_oort(runs).loc["own"]

    assert reached(row, TARGET) == "0/1"
    assert (pair["pairs"], pair["first"], pair["behind"]) == (1, 0, 1)
    unknown = runs[own].iloc[0].to_dict()
    assert of_run(unknown, TARGET) == "-"
    assert of_run({**unknown, "status": "diverged"}, TARGET) == "> 3"
    some = runs[runs["seed"] < 3]
    row, pair = settings(some)["own"], against_oort(some).loc["own"]
    assert reached(row, TARGET) == "not evaluated"
    assert in_cell(row, TARGET) == "-"
    assert pair["pairs"] == 0


def test_a_setting_that_missed_a_target_is_not_ranked() -> None:
    """It stands neither on the front nor above others, and is named."""
    runs = censored_runs()
    objectives = {"accuracy": "max", TARGET: "min"}

    front = study_front(runs, ["selection"], objectives)
    means = point_means(runs, ["selection"], list(objectives))

    assert front["selection"].tolist() == ["random"]
    assert unranked(means, ["selection"], objectives) == [
        "not ranked: oort (reached accuracy 0.38 in 2/3 runs)",
        "not ranked: own (reached accuracy 0.38 in 1/3 runs)",
    ]


def test_effects_and_indices_of_what_some_runs_missed_are_not_computed() -> None:
    """The runs that met the target are no fair sample; a sentence says so."""
    runs = censored_runs().assign(size=lambda own: own["point"])

    assert main_effects(runs, TARGET, ["selection"]).empty
    assert first_order_indices(runs, TARGET, ["size"]).empty
    (sentence,) = not_explained(runs, ["accuracy", TARGET])
    assert "not computed: 6 of 9 runs met the target" in sentence
    assert len(main_effects(runs, "accuracy", ["selection"])) == 3


def test_a_single_run_that_missed_is_known_to_need_more() -> None:
    """More than it had spent at its end, in the unit of the figure."""
    run = {"time_s": 3.0, "energy_j": 30.0, "bytes": 100, "accuracy": 0.3}
    missed = dict.fromkeys((TARGET, "energy_to_loss_1e-05_j", "bytes_to_loss_2_b"), MISSED)

    shown = [of_run({**run, **missed}, name) for name in missed]

    assert shown == ["> 3", "> 30", "> 100"]
    assert of_run({**run, TARGET: 2.0}, TARGET) == 2.0


def test_names_of_targets() -> None:
    """Every column that a study's targets add, and no other."""
    target = target_of("energy_to_loss_1e-05_j")

    assert target is not None
    assert (target.what, target.spent) == ("loss 1e-05", "energy_j")
    assert [target_of(name) for name in ("time_s", "accuracy", "cost.time_to_s")] == [None] * 3


def test_a_median_has_an_interval_from_six_runs_on() -> None:
    """For six runs the least and the greatest (1 - 2/64 = 97 %), for nine the second of each
    end.
    """
    missed = np.array([1.0, 2.0, 3.0, 4.0, 5.0, MISSED])
    spent = np.full(6, 9.0)

    assert median_interval(missed, spent, 0.95) == (1.0, math.inf)
    assert median_interval(np.array([*missed, 6.0, 7.0, 8.0]), np.full(9, 9.0), 0.95) == (2.0, 8.0)
    assert all(map(math.isnan, median_interval(missed[1:], spent[1:], 0.95)))
    runs = pd.DataFrame({"point": [0] * 6, TARGET: missed, "time_s": spent})
    (row,) = point_means(runs, [], [TARGET]).to_dict("records")
    assert in_cell(row, TARGET) == "median 3.5 (1 or more)"
    late = runs.assign(**{TARGET: [1.0, 2.0, MISSED, MISSED, MISSED, MISSED]})
    (row,) = point_means(late, [], [TARGET]).to_dict("records")
    assert in_cell(row, TARGET) == "> 9 (1 or more)"


@pytest.mark.parametrize("count", [6, 10, 20])
def test_the_interval_of_a_median_holds_it(count: int) -> None:
    """Log-normal times around 1 s, watched until 1.5 s: 1000 times so many runs."""
    times = np.random.default_rng(count).lognormal(0.0, 1.0, (1000, count))
    seen = np.where(times > 1.5, MISSED, times)
    ends = np.array([median_interval(one, np.full(count, 1.5), 0.95) for one in seen])

    assert ((ends[:, 0] <= 1.0) & (ends[:, 1] >= 1.0)).mean() > 0.94
