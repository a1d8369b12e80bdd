"""Settings with diverged or missing runs are not ranked by the seeds that went well."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from simfl.study.best import best_settings
from simfl.study.comparisons import paired_differences
from simfl.study.effects import not_explained
from simfl.study.figure_text import in_cell
from simfl.study.means import point_means
from simfl.study.pareto import study_front, unranked
from simfl.study.studyfile import Best

OBJECTIVES = {"accuracy": "max", "time_s": "min"}


def runs(wild: int = 2, seeds: int = 3) -> pd.DataFrame:
    """Setting "safe" has 0.90 in 100 s; of "wild", with 0.91 in 90 s, so many seeds diverged."""
    return pd.DataFrame(
        [
            {
                "point": point,
                "rule": rule,
                "seed": seed,
                "status": "diverged" if rule == "wild" and seed < wild else "completed",
                "reason": "",
                "accuracy": accuracy + 0.001 * seed,
                "time_s": time_s,
            }
            for point, (rule, accuracy, time_s) in enumerate(
                [("safe", 0.9, 100), ("wild", 0.91, 90)]
            )
            for seed in range(seeds)
        ]
    )


def test_it_is_on_no_front_and_is_named() -> None:
    """Without divergence it would better the other in everything."""
    means = point_means(runs(), ["rule"], list(OBJECTIVES))

    assert study_front(runs(wild=0), ["rule"], OBJECTIVES)["rule"].tolist() == ["wild"]
    assert study_front(runs(), ["rule"], OBJECTIVES)["rule"].tolist() == ["safe"]
    assert unranked(means, ["rule"], OBJECTIVES) == ["not ranked: wild (diverged in 2/3 runs)"]
    assert in_cell(means.iloc[1], "accuracy") == "0.912 (1/3)"


def test_it_has_no_verdict() -> None:
    """A difference of the seeds that went well is one of chosen seeds."""
    (row,) = paired_differences(runs(), "accuracy", "rule", "safe").to_dict("records")
    (other,) = paired_differences(runs(), "accuracy", "rule", "wild").to_dict("records")
    (all_of_it,) = paired_differences(runs(wild=3), "accuracy", "rule", "safe").to_dict("records")

    assert {row["verdict"], other["verdict"], all_of_it["verdict"]} == {"diverged"}
    assert math.isnan(row["difference"]) and math.isnan(row["ci_low"])
    assert (row["pairs"], all_of_it["pairs"]) == (1, 0)
    (whole,) = paired_differences(runs(wild=0), "accuracy", "rule", "safe").to_dict("records")
    assert whole["verdict"] == "higher"


def test_effects_say_which_runs_they_leave_out() -> None:
    """They are of the runs that completed; those of a target count the others, too."""
    (sentence,) = not_explained(runs(), ["accuracy", "time_s"])

    assert sentence == (
        "main effects and Sobol indices of accuracy, time_s leave out 2 of 6 runs, which diverged:"
        " the others are no fair sample"
    )
    assert not_explained(runs(wild=0), ["accuracy"]) == []
    table = runs().assign(**{"time_to_accuracy_0.5_s": 3.0})
    assert not_explained(table, ["time_to_accuracy_0.5_s"]) == []


def test_a_seed_that_others_lack_makes_no_mean_better() -> None:
    """The setting lacks its slow seed, which is the only reason for its lower mean."""
    rows = [("hasty", 0, 60.0), ("hasty", 1, 62.0), ("whole", 0, 50.0), ("whole", 1, 52.0)]
    table = pd.DataFrame([*rows, ("whole", 2, 150.0)], columns=["rule", "seed", "energy_j"])
    table = table.assign(point=(table["rule"] == "whole").astype(int), status="completed")

    front = study_front(table, ["rule"], {"energy_j": "min"})
    means = point_means(table, ["rule"], ["energy_j"])
    found = best_settings(table, ["rule"], Best(minimize="energy_j"))

    assert front["rule"].tolist() == ["whole"]
    assert unranked(means, ["rule"], {"energy_j": "min"}) == [
        "not ranked: hasty (2 of 3 runs are there)"
    ]
    other_seeds = point_means(table.drop(index=2), ["rule"], ["energy_j"])
    assert len(unranked(other_seeds, ["rule"], {"energy_j": "min"})) == 2
    assert found["rule"].tolist() == ["whole", "hasty"]
    assert found["ranked"].tolist() == [True, False]


@pytest.mark.parametrize("reason", ["accuracy reached 0.8", "time_s reached 60"])
def test_how_runs_ended_keeps_settings_from_being_ranked(reason: str) -> None:
    """Seconds until an accuracy that a codec did not change are not compared with others'."""
    table = runs(wild=0).assign(reason=reason)
    table["sized_only"] = (table["rule"] == "wild").map({True: "quantise", False: ""})

    front = study_front(table, ["rule"], {"time_s": "min"})
    best = best_settings(table, ["rule"], Best(minimize="time_s")).iloc[0]

    ended_by_accuracy = reason.startswith("accuracy")
    assert front["rule"].tolist() == (["safe"] if ended_by_accuracy else ["wild"])
    assert best["rule"] == ("safe" if ended_by_accuracy else "wild")
