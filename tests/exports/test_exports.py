"""What other tools are told of a run is what its folder says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import simfl
from simfl.cli import app
from simfl.exports import MissingTool
from simfl.exports.mlflow import export_to_mlflow, parameters
from simfl.exports.tensorboard import TensorBoardLog
from simfl.runfolder import LoadedRun
from tests.small import SMALL, small


@pytest.fixture
def run(tmp_path: Path) -> LoadedRun:
    """A small run with a measure."""
    return simfl.run(small(evaluate={"measures": ["participation"]}), tmp_path / "run")


@pytest.mark.filterwarnings("ignore")  # what these libraries warn of is theirs
def test_tensorboard_shows_every_version(tmp_path: Path) -> None:
    """Accuracy by version, at simulated moments."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    file = tmp_path / "small.yaml"
    file.write_text(yaml.safe_dump(SMALL))
    out, logs = tmp_path / "out", tmp_path / "logs"

    result = CliRunner().invoke(
        app, ["run", str(file), "--quiet", "--out", str(out), "--tensorboard", str(logs)]
    )

    assert result.exit_code == 0, result.output
    read = EventAccumulator(str(logs)).Reload()
    rounds = simfl.load_run(out).rounds
    scalars = read.Scalars("test/accuracy")
    assert [one.step for one in scalars] == rounds["version"].tolist()
    assert [one.value for one in scalars] == pytest.approx(rounds["accuracy"].tolist())
    assert [one.wall_time for one in scalars] == pytest.approx(rounds["time_s"].tolist())


@pytest.mark.filterwarnings("ignore")
def test_mlflow_holds_parameters_curves_and_scenario(
    run: LoadedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read back from a store in a folder."""
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = (tmp_path / "store").as_uri()

    identifier = export_to_mlflow(run, uri)

    client = mlflow.MlflowClient(tracking_uri=uri)
    there = client.get_run(identifier)
    assert there.info.status == "FINISHED"
    assert there.data.params["algorithm.local.batch_size"] == "16"
    assert there.data.params["population.groups.1.device"] == "phone_high_sd865"
    assert there.data.metrics["participation.jain_index"] == 1.0
    curve = client.get_metric_history(identifier, "accuracy")
    assert [one.value for one in curve] == run.rounds["accuracy"].tolist()
    assert [one.step for one in curve] == run.rounds["version"].tolist()
    assert [one.path for one in client.list_artifacts(identifier)] == ["scenario.yaml"]


def test_a_scenario_as_parameters() -> None:
    """Dotted names; lists of sections by their index, other lists as they are."""
    section = {"a": {"b": 1, "c": [1, 2]}, "g": [{"d": None}, {"d": "x"}]}

    assert parameters(section) == {"a.b": "1", "a.c": "[1, 2]", "g.0.d": "None", "g.1.d": "x"}


def test_a_tool_that_is_not_installed(
    run: LoadedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What to install is said."""
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard.writer", None)

    with pytest.raises(MissingTool, match=r"simfl\[tensorboard\]"):
        TensorBoardLog(tmp_path)
    result = CliRunner().invoke(app, ["export", str(run.path), "--mlflow", "file:x"])
    assert result.exit_code == 2
    assert "simfl[mlflow]" in result.stderr
