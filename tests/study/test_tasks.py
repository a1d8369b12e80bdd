"""Studies of which some settings are regressions: their R^2 is no accuracy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from simfl.study.best import best_settings
from simfl.study.comparable import caveat_sentences
from simfl.study.comparisons import paired_differences
from simfl.study.curves import mean_curve
from simfl.study.effects import explainable
from simfl.study.figure_text import in_cell
from simfl.study.hardware import hardware_differences
from simfl.study.means import point_means
from simfl.study.pareto import on_front, unranked
from simfl.study.regression import bounds_in
from simfl.study.studyfile import Best

FACTORS = ["data", "epochs"]


@pytest.fixture
def mixed() -> pd.DataFrame:
    """Two settings of a classification and two of a regression, three seeds each."""
    rows = [
        {
            "point": point,
            "seed": seed,
            "data": data,
            "epochs": epochs,
            "status": "completed",
            "reason": "versions reached 5",
            "accuracy": accuracy + seed / 100,
            "loss": 1.0 - accuracy + seed / 100,
            "time_s": 10.0 + epochs + seed,
            "task": task,
        }
        for point, (data, task, epochs, accuracy) in enumerate(
            [
                ("digits", "classification", 1, 0.7),
                ("digits", "classification", 2, 0.8),
                ("houses", "regression", 1, 0.9),
                ("houses", "regression", 2, 0.2),
            ]
        )
        for seed in (1, 2, 3)
    ]
    return pd.DataFrame(rows)


def test_cells_say_whose_accuracy_is_r2(mixed: pd.DataFrame) -> None:
    """Where tasks differ; where they do not, the line below the table does."""
    means = point_means(mixed, FACTORS, ["accuracy", "time_s"]).to_dict("records")

    told = [in_cell(one, "accuracy") for one in means]
    assert [one.startswith("R^2 ") for one in told] == [False, False, True, True]
    assert not in_cell(means[2], "time_s").startswith("R^2")
    alone = mixed[mixed["task"] == "regression"]
    (first, _) = point_means(alone, FACTORS, ["accuracy"]).to_dict("records")
    assert not in_cell(first, "accuracy").startswith("R^2")


def test_what_is_learned_of_different_tasks_is_not_compared(mixed: pd.DataFrame) -> None:
    """Nor explained, nor are differences of each averaged; seconds are, and one task's."""
    across = paired_differences(mixed, "accuracy", "data", "digits", FACTORS)
    averaged = paired_differences(mixed, "accuracy", "epochs", 1, FACTORS)
    digits = mixed[mixed["data"] == "digits"]
    within = paired_differences(digits, "accuracy", "epochs", 1, FACTORS)
    seconds = paired_differences(mixed, "time_s", "data", "digits", FACTORS)

    assert across["verdict"].tolist() == ["other tasks"]
    assert across["difference"].isna().all()
    assert averaged["verdict"].tolist() == ["other tasks"]
    assert within["difference"].tolist() == [pytest.approx(0.1)]
    assert seconds["verdict"].tolist() == ["equal"]
    assert not explainable(mixed, "accuracy") and explainable(mixed, "time_s")
    (sentence, _) = caveat_sentences(mixed, ["accuracy", "time_s"])
    assert sentence == (
        "other tasks: accuracy under regression; accuracies and losses of different tasks are"
        " different figures"
    )


def test_settings_of_another_task_are_neither_best_nor_on_a_front(mixed: pd.DataFrame) -> None:
    """The R^2 of 0.9 is no better than the accuracy of 0.8."""
    means = point_means(mixed, FACTORS, ["accuracy", "time_s"])
    asked = {"accuracy": "max", "time_s": "min"}

    best = best_settings(mixed, FACTORS, Best(maximize="accuracy"))

    assert on_front(means, asked).tolist() == [True, True, False, False]
    assert "not ranked: houses, epochs 1 (other tasks under regression)" in unranked(
        means, FACTORS, asked
    )
    assert best["point"].iloc[0] == 1
    assert best["ranked"].tolist() == [True, True, False, False]


def test_an_r2_below_zero_is_moved_by_machines_and_compared_as_any_figure() -> None:
    """Machines keep its order below 0; relative differences end below -100 %, bands below 0."""
    runs = pd.DataFrame(
        {
            "point": [0, 0, 1, 1],
            "seed": [1, 2, 1, 2],
            "level": [0, 0, 1, 1],
            "accuracy": [-0.4, -0.6, -0.8, -1.0],
            "status": "completed",
            "task": "regression",
        }
    )
    drawn = pd.concat([runs.assign(draw=runs["seed"]), runs.assign(draw=runs["seed"] + 2)])
    near = runs.assign(accuracy=[0.40, 0.41, 0.01, 0.25])

    (moved,) = hardware_differences(runs, drawn, "accuracy", "level", 0).to_dict("records")
    (below,) = paired_differences(near, "accuracy", "level", 0).to_dict("records")
    curves = [(np.array([1.0, 2.0]), np.array(heights)) for heights in ([0.1, 0.2], [0.2, 0.6])]
    band = mean_curve(curves, "time_s", "accuracy", bounds=bounds_in(runs, "accuracy"))

    assert (moved["difference"], moved["hardware_low"]) == (pytest.approx(-0.4),) * 2
    assert moved["holds"] > 0.5
    assert below["relative_low"] < -1.0
    assert (band["accuracy_low"] < 0.0).all() and band["accuracy_high"].iloc[-1] == 1.0
