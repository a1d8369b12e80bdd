"""The work of a round is that of the batches that are trained, also where BatchNorm skips one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import simfl
from tests.small import small


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
    scenario = small(
        data={"name": "digits", "partition": {"name": "exact_sizes", "sizes": [9] * 8}},
        model={"name": "mlp", "hidden": [4], "batch_norm": batch_norm},
        population={"groups": [{"device": "rpi_4b", "link": "wifi5_ac", "share": 1.0}]},
        algorithm={"name": algorithm, "local": {**amount, "batch_size": 8}},
        stop={"versions": 1},
    )

    run = simfl.run(scenario, tmp_path / "run")

    whole = simfl.run(
        small(
            data={"name": "digits", "partition": {"name": "exact_sizes", "sizes": [8] * 8}},
            model={"name": "mlp", "hidden": [4], "batch_norm": batch_norm},
            population={"groups": [{"device": "rpi_4b", "link": "wifi5_ac", "share": 1.0}]},
            algorithm={"name": "none", "local": {"epochs": 1, "batch_size": 8}},
            stop={"versions": 1},
        ),
        tmp_path / "whole",
    )
    of_8, *_ = whole.details("compute")["cycles"]
    steps = run.details("compute")["cycles"] / of_8
    assert steps.to_numpy() == pytest.approx(examples / 8)
