"""Every column of a run's tables is explained by `simfl list`."""

from __future__ import annotations

from pathlib import Path

import pytest

import simfl
from simfl.runs.columns import CLIENTS, EVALUATIONS, ROUNDS
from simfl.runs.runfolder import TABLES
from tests.small import small

PHONES = {
    "groups": [{"device": "phone_high_sd865", "link": "lte_2021", "share": 1.0}],
    "region": "grid_germany",
}


VALIDATED = {"name": "digits", "partition": "iid", "validation_share": 0.1}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"population": PHONES, "algorithm": "fedsac", "data": VALIDATED},
        {"algorithm": "ditto", "evaluate": {"clients": True}},
    ],
    ids=["plain", "phones", "own models"],
)
def test_every_column_is_explained(changes: dict[str, object], tmp_path: Path) -> None:
    """Of every table that a run leaves."""
    run = simfl.run(small(**changes), tmp_path / "run")

    assert set(run.clients.columns) <= set(CLIENTS)
    assert list(run.rounds.columns) == list(ROUNDS) == TABLES["rounds"].names
    assert list(run.evaluations.columns) == list(EVALUATIONS) == TABLES["evaluations"].names
