"""Learning where nearly everything goes wrong: `scenarios/faults.yaml` and its fault-free twin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import simfl
from simfl.scenario.shipped import shipped_scenarios

FAULT_FREE = [
    "population.availability=always",
    "population.message_loss=null",
    "population.faults={}",
    "population.batteries=null",
]


def run(folder: Path, *changes: str) -> simfl.LoadedRun:
    """The scenario, changed."""
    scenario = simfl.Scenario.from_yaml(shipped_scenarios()["faults"], list(changes))
    return simfl.run(scenario, folder)


def test_everything_that_the_scenario_promises_happens(tmp_path: Path) -> None:
    """Three in ten client rounds are dropped, and every fault is in the log."""
    faulty = run(
        tmp_path / "run", "stop.versions=20", "algorithm.local.steps=1", "evaluate.every=20"
    )

    events = faulty.events
    counts = events["kind"].value_counts()
    client_rounds = (events["kind"].eq("download") & events["client"].notna()).sum()
    assert 0.2 < counts["unavailable"] / client_rounds < 0.4
    assert counts["crash"] > 5
    assert counts["battery_empty"] > 0
    what = set(faulty.details("crash")["what"].dropna())
    assert what == {"edge_server", "cloud_link"}
    assert faulty.manifest["traffic"]["bytes_lost"] > 0
    assert all(faulty.manifest["invariants"].values())


@pytest.mark.slow
def test_fedcure_with_faults_is_within_three_points(tmp_path: Path) -> None:
    """Final accuracy over three seeds, against runs in which nothing fails."""
    accuracy = np.empty((2, 3))
    for seed in (1, 2, 3):
        for row, changes in enumerate(([], FAULT_FREE)):
            one = run(tmp_path / f"{seed}-{row}", f"seed={seed}", *changes)
            assert all(one.manifest["invariants"].values())
            accuracy[row, seed - 1] = one.rounds["accuracy"].dropna().iloc[-1]

    faulty, fault_free = accuracy.mean(axis=1)
    assert fault_free > 0.94
    assert fault_free - faulty < 0.03
