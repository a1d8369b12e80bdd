"""The shipped scenarios run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import simfl
from simfl.assembly import registry
from simfl.assembly.assemble import assemble
from simfl.common.files import DataMissing
from simfl.scenario.shipped import shipped_scenarios
from simfl.scenario.yaml_source.error import ScenarioError

SELF_CONTAINED = {"digits", "synthetic", "sizes", "images.py:FewDigits", "colored_digits"}
"""Data sets that need no files."""


def cases(self_contained: bool) -> list[Any]:
    """Every scenario file whose data are at hand, or every one that needs a data root."""
    return [
        pytest.param(path, id=name)
        for name, path in shipped_scenarios().items()
        if (simfl.Scenario.from_yaml(path).data.name in SELF_CONTAINED) == self_contained
    ]


ALGORITHMS = [one for one in cases(self_contained=True) if one.id.startswith("algorithms/")]
"""Alike but for the algorithm, each of which is held to a loop in tests of its own."""
OTHERS = [one for one in cases(self_contained=True) if not one.id.startswith("algorithms/")]


@pytest.mark.parametrize("path", OTHERS)
def test_a_scenario_runs(path: Path, tmp_path: Path) -> None:
    """Two versions complete, and the laws of the run hold."""
    assert_runs(path, tmp_path)


@pytest.mark.grid(3)
@pytest.mark.parametrize("path", ALGORITHMS)
def test_an_algorithm_s_scenario_runs(path: Path, tmp_path: Path) -> None:
    """As all others do."""
    assert_runs(path, tmp_path)


def assert_runs(path: Path, tmp_path: Path) -> None:
    """Run two versions."""
    scenario = simfl.Scenario.from_yaml(path, ["stop.versions=2"])

    run = simfl.run(scenario, tmp_path / "run")

    assert run.manifest["status"] == "completed"
    assert run.manifest["counts"]["versions"] == 2
    assert all(run.manifest["invariants"].values())


@pytest.mark.data
@pytest.mark.parametrize("path", cases(self_contained=False))
def test_a_scenario_with_data_of_the_users_is_valid(path: Path) -> None:
    """Everything about it is checked, without running it, where its data set is at hand."""
    try:
        assemble(simfl.Scenario.from_yaml(path))
    except ScenarioError as error:
        if not isinstance(error.__cause__, DataMissing):
            raise
        pytest.skip(str(error.__cause__))


def test_every_algorithm_has_a_scenario() -> None:
    """One scenario per algorithm, so that each can be tried."""
    shown = {simfl.Scenario.from_yaml(path).algorithm.name for path in shipped_scenarios().values()}

    assert set(registry.names("algorithms")) <= shown
