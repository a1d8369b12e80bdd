"""What is reported about a run that was to end at an accuracy or a loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import simfl
from simfl.common.notices import Notice
from simfl.runs.warning_rules import found
from tests.small import simulated, small


def told(
    kind: str, stop: dict[str, Any], rounds: list[tuple[float | None, float | None]]
) -> list[str]:
    """The messages of a kind, of a run that ended after versions of such (accuracy, loss)."""
    simulation, run = simulated(small(stop={"versions": len(rounds), **stop}))
    of_first = run.publications.rounds[0]
    run.publications.rounds[:] = [
        {**of_first, "version": number, "accuracy": accuracy, "loss": loss}
        for number, (accuracy, loss) in enumerate(rounds, 1)
    ]
    notices: list[Notice] = found(simulation, run)
    return [one.message for one in notices if one.kind == kind]


FEW = [(None, None), (0.5, 1.5), (0.75, 0.9), (0.7, 1.0)]


@pytest.mark.parametrize(
    ("stop", "said"),
    [
        (
            {"accuracy": 0.76},
            "the test accuracy 0.76 (stop.accuracy) was not reached: the best of 3 evaluations"
            " gave 0.75",
        ),
        ({"accuracy": 0.75}, None),
        (
            {"loss": 0.89},
            "the test loss 0.89 (stop.loss) was not reached: the best of 3 evaluations gave 0.9",
        ),
        ({"loss": 0.9}, None),
        ({"accuracy": 0.76, "loss": 0.9}, None),
        (
            {"accuracy": 0.76, "loss": 0.89},
            "the test accuracy 0.76 (stop.accuracy) was not reached: the best of 3 evaluations"
            " gave 0.75; the test loss 0.89 (stop.loss) was not reached: the best of 3 evaluations"
            " gave 0.9",
        ),
        ({}, None),
    ],
)
def test_a_target_that_is_never_met_is_told_with_the_best(
    stop: dict[str, float], said: str | None
) -> None:
    """One of two targets is enough; the best value is not the last."""
    assert told("target_missed", stop, FEW) == [said] * (said is not None)


@pytest.mark.parametrize(
    ("rounds", "said"),
    [([(0.5, 1.5)], "the only evaluation gave 0.5"), ([(None, None)], "no version has one")],
)
def test_a_target_of_few_evaluations(
    rounds: list[tuple[float | None, float | None]], said: str
) -> None:
    """As many as there are."""
    (one,) = told("target_missed", {"accuracy": 0.6}, rounds)

    assert one.endswith(said)


@pytest.mark.parametrize(
    ("stop", "said"),
    [
        ({"accuracy": 0.5}, "accuracy 0.5 is met"),
        ({"accuracy": 0.51}, None),
        ({"loss": 1.5, "accuracy": 0.4}, "accuracy 0.4, loss 1.5 are met"),
        ({"loss": 1.49}, None),
    ],
)
def test_a_target_that_the_first_evaluation_meets(stop: dict[str, float], said: str | None) -> None:
    """With its version."""
    found_at_once = told("target_at_once", stop, FEW)

    assert len(found_at_once) == (said is not None)
    assert all(
        one.startswith(f"{said} at the first evaluation (version 2, ") for one in found_at_once
    )


def test_a_run_that_ends_without_its_accuracy_says_so(tmp_path: Path) -> None:
    """In addition to the reason, the number of versions; a run that reached it says nothing."""
    missed = simfl.run(small(stop={"versions": 3, "accuracy": 0.999}), tmp_path / "missed")
    met = simfl.run(small(stop={"versions": 40, "accuracy": 0.8}), tmp_path / "met")

    (one,) = [one for one in missed.warnings if one.kind == "target_missed"]
    assert missed.manifest["reason"] == "versions reached 3"
    assert one.message.endswith(f"evaluations gave {missed.rounds['accuracy'].max():.4g}")
    assert met.manifest["reason"] == "accuracy reached 0.8"
    assert not {"target_missed", "target_at_once"} & {one.kind for one in met.warnings}


def test_a_regression_has_no_accuracy_to_miss(tmp_path: Path) -> None:
    """What was asked for is an R^2."""
    data = {"name": "synthetic", "task": "regression", "outputs": 1, "partition": "iid"}
    stop = {"versions": 2, "accuracy": 1.0}
    run = simfl.run(small(data=data, stop=stop), tmp_path / "run")

    (one,) = [one for one in run.warnings if one.kind == "target_missed"]
    assert one.message.startswith("the test R^2 1 (stop.accuracy) was not reached: the best of 2")
