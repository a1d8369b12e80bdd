"""The work of a round is that of the batches that are trained, also where BatchNorm skips one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simfl
from tests.small import simulated, small


def of_rows(rows: int, batch_norm: bool, algorithm: str, amount: dict[str, Any]) -> simfl.Scenario:
    """A round of clients that each have so many rows, in batches of 8."""
    return small(
        data={"name": "digits", "partition": {"name": "exact_sizes", "sizes": [rows] * 8}},
        model={"name": "mlp", "hidden": [4], "batch_norm": batch_norm},
        population={"groups": [{"device": "rpi_4b", "link": "wifi5_ac", "share": 1.0}]},
        algorithm={"name": algorithm, "local": {**amount, "batch_size": 8}},
        stop={"versions": 1},
    )


@pytest.mark.parametrize("algorithm", ["fedavg", "none"])
@pytest.mark.parametrize(
    ("batch_norm", "amount", "examples"),
    [
        (True, {"steps": 10}, 80),
        (False, {"steps": 10}, 45),
        (True, {"epochs": 2}, 16),
        (False, {"epochs": 2}, 18),
    ],
)
def test_examples_of_a_round_are_those_that_are_trained(
    batch_norm: bool, amount: dict[str, Any], examples: int, algorithm: str, tmp_path: Path
) -> None:
    """9 rows in batches of 8: 8 and 1 in turn, or 8 again and again."""
    run, whole = (
        simfl.run(of_rows(rows, batch_norm, algorithm, amounts), tmp_path / str(rows))
        for rows, amounts in ((9, amount), (8, {"epochs": 1}))
    )

    of_8, *_ = whole.details("compute")["cycles"]
    steps = run.details("compute")["cycles"] / of_8
    assert steps.to_numpy() == pytest.approx(examples / 8)


@pytest.mark.parametrize("algorithm", ["fedavg", "none"])
def test_steps_of_a_round_are_those_that_are_trained(algorithm: str) -> None:
    """Two passes over 9 rows in batches of 8 are two steps with BatchNorm, else four."""
    for batch_norm, steps in ((True, 2.0), (False, 4.0)):
        _, run = simulated(of_rows(9, batch_norm, algorithm, {"epochs": 2}))

        assert run.values.plain_work(np.array([9, 9]), 0)[1].tolist() == [steps, steps]


def test_without_learning_a_client_may_have_a_single_row() -> None:
    """Whose step counts, as nothing is trained that could refuse it; nothing costs nothing."""
    _, run = simulated(of_rows(9, True, "none", {"steps": 3}))

    examples, steps = run.values.plain_work(np.array([1, 0, 10]), 0)

    assert examples.tolist() == [3.0, 0.0, 18.0] and steps.tolist() == [3.0, 3.0, 3.0]
