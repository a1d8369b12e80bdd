"""What a new user tries: files beside the scenario, other tools' names, the other command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

import simfl
from simfl.assembly.assemble import assemble
from simfl.assembly.simulation import Options
from simfl.cli.app import app
from simfl.scenario.scenario import Scenario
from simfl.scenario.yaml_source.error import ScenarioError
from tests.small import SMALL


def written(folder: Path, **changes: Any) -> Path:
    """The small scenario with other sections, in a file."""
    file = folder / "mine.yaml"
    file.write_text(yaml.safe_dump({**SMALL, **changes}, sort_keys=False))
    return file


def save_arrays(file: Path, rows: int) -> None:
    """Two classes of numbers, so many of them to train on."""
    file.parent.mkdir(exist_ok=True)
    inputs, classes = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2), np.arange(rows) % 2
    np.savez(file, x_train=inputs, y_train=classes, x_test=inputs[:4], y_test=classes[:4])


def test_a_file_beside_the_scenario_is_found_before_one_below_the_data_root(tmp_path: Path) -> None:
    """Also from the run's own scenario, which may be run from any folder."""
    root = tmp_path / "root"
    save_arrays(root / "own.npz", 40)
    data = {"name": "npz", "path": "own.npz", "partition": "iid"}
    file, options = written(tmp_path, data=data), Options(data_root=root)

    below = assemble(Scenario.from_yaml(file), options).partitioned.num_examples.sum()
    save_arrays(tmp_path / "own.npz", 24)
    run = simfl.run(Scenario.from_yaml(file, ["stop.versions=1"]), tmp_path / "run", options)
    again = assemble(Scenario.from_yaml(tmp_path / "run" / "scenario.yaml"))

    assert below == 40
    assert run.clients["num_examples"].sum() == again.partitioned.num_examples.sum() == 24


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("model", "resnet18", "did you mean {name: torchvision, architecture: resnet18}?"),
        ("algorithm.lr", 0.1, "did you mean 'local.learning_rate'?"),
        ("algorithm.batch_size", 8, "did you mean 'local.batch_size'?"),
        ("algorithm.local.lr", 0.1, "did you mean 'learning_rate'?"),
    ],
)
def test_names_of_other_tools_lead_to_those_of_here(
    key: str, value: object, words: str, tmp_path: Path
) -> None:
    """At whatever depth they stand."""
    scenario = Scenario.from_yaml(written(tmp_path), [f"{key}={value}"])
    with pytest.raises(ScenarioError) as caught:
        assemble(scenario)

    assert words in str(caught.value)


def test_a_run_takes_a_name_a_file_a_mapping_or_a_scenario(tmp_path: Path) -> None:
    """Keys are changed by their dotted paths, with values as Python has them."""
    nameless = {key: value for key, value in SMALL.items() if key != "name"}
    one = {**nameless, "stop": {"versions": 1}}
    changed = Scenario.from_mapping(nameless).with_overrides(
        {"stop.versions": 1, "decisions.selection.name": "random", "decisions.selection.count": 2}
    )

    runs = [
        simfl.run("starter", tmp_path / "by_name"),
        simfl.run(one, tmp_path / "mapping"),
        simfl.run(changed, tmp_path / "changed"),
    ]

    assert [len(run.rounds) for run in runs] == [10, 1, 1]
    assert [run.manifest["name"] for run in runs] == ["starter", "scenario", "scenario"]
    assert runs[2].scenario["decisions"]["selection"]["count"] == 2
    assert changed.with_overrides({}).digest == changed.digest
    with pytest.raises(ScenarioError, match="did you mean 'versions'"):
        changed.with_overrides({"stop.version": 1})


def test_a_study_that_is_run_says_so(tmp_path: Path) -> None:
    """With the command that it is for; a scenario that is studied is a study of its own."""
    study = tmp_path / "study.yaml"
    study.write_text("scenario: mine.yaml\nseeds: [1]\n")

    told = CliRunner().invoke(app, ["run", str(study)])

    assert told.exit_code == 2
    assert f"this is a study; `simfl study {study}` runs it" in told.stderr
