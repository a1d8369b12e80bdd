"""What other tools are told of a run is what its folder says."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

import simfl
from simfl import Options
from simfl.cli.app import app
from simfl.exports import MissingTool
from simfl.exports.mlflow import export_to_mlflow, parameters
from simfl.exports.tensorboard import TensorBoardLog
from simfl.protocols.publication import Progress
from simfl.runs import execution
from simfl.runs.runfolder import LoadedRun
from tests.small import SMALL, small
from tests.study.studies import write_study


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
def test_tensorboard_shows_one_run_of_a_folder(tmp_path: Path) -> None:
    """A run that is resumed or made anew replaces what was there; one that is refused does not."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logs, out = tmp_path / "logs", tmp_path / "out"

    def steps() -> list[int]:
        read = EventAccumulator(str(logs)).Reload()
        return [one.step for one in read.Scalars("test/accuracy")]

    def stop(progress: Progress) -> None:
        log.update(progress)
        if progress.version == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), TensorBoardLog(logs) as log:
        execution.run(small(stop={"versions": 6}), out, Options(watch=stop))
    assert steps() == [1, 2, 3, 4]

    file = tmp_path / "small.yaml"
    file.write_text(yaml.safe_dump({**SMALL, "stop": {"versions": 6}}))
    command = ["run", str(file), "--quiet", "--out", str(out), "--tensorboard", str(logs)]
    for flags, code in ((["--resume"], 0), ([], 2), (["--overwrite"], 0)):
        result = CliRunner().invoke(app, [*command, *flags])
        assert result.exit_code == code, result.output
        assert steps() == [1, 2, 3, 4, 5, 6]


@pytest.mark.filterwarnings("ignore")
def test_mlflow_holds_parameters_curves_and_scenario(
    run: LoadedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read back from a store in a folder."""
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = (tmp_path / "store").as_uri()

    identifier, _ = export_to_mlflow(run, uri)

    client = mlflow.MlflowClient(tracking_uri=uri)
    there = client.get_run(identifier)
    assert there.info.status == "FINISHED"
    assert there.data.params["algorithm.local.batch_size"] == "16"
    assert there.data.params["population.groups.1.device"] == "phone_high_sd865"
    assert there.data.metrics["participation.jain_index"] == 1.0
    curve = client.get_metric_history(identifier, "accuracy")
    assert [one.value for one in curve] == run.rounds["accuracy"].tolist()
    assert [one.step for one in curve] == run.rounds["version"].tolist()
    milliseconds = [round(time_s * 1000) for time_s in run.rounds["time_s"]]
    assert [one.timestamp for one in curve] == milliseconds
    for name in ("energy_j", "client_energy_j", "bytes", "merged_updates", "wasted_rounds"):
        assert there.data.metrics[f"total_{name}"] == run.manifest[name]
    files = [one.path for one in client.list_artifacts(identifier)]
    assert sorted(files) == ["manifest.json", "scenario.yaml"]
    kinds = there.data.tags["simfl.warnings"].split(", ")
    assert kinds == ([one.kind for one in run.warnings] or ["none"])


@pytest.mark.filterwarnings("ignore")
def test_a_study_is_exported_once_with_its_factors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its runs can be told apart, and a second export adds none."""
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = (tmp_path / "store").as_uri()
    points = {"grid": {"algorithm.local.steps": [1, 2]}}
    file = write_study(tmp_path, points=points)
    assert (
        CliRunner().invoke(app, ["study", str(file), "--out", str(tmp_path / "out")]).exit_code == 0
    )
    command = ["export", str(tmp_path / "out"), "--mlflow", uri]

    first, second = (CliRunner().invoke(app, command) for _ in range(2))

    assert first.exit_code == second.exit_code == 0, (first.output, second.output)
    client = mlflow.MlflowClient(tracking_uri=uri)
    number = client.get_experiment_by_name("simfl").experiment_id
    there = client.search_runs([number])
    assert sorted(one.info.run_name for one in there) == [
        "base-seed1, 1",
        "base-seed1, 2",
        "base-seed2, 1",
        "base-seed2, 2",
    ]
    factors = [one.data.tags["simfl.factor.algorithm.local.steps"] for one in there]
    assert sorted(factors) == ["1", "1", "2", "2"]
    assert "was there" not in first.stdout and second.stdout.count("(was there)") == 4


@pytest.mark.filterwarnings("ignore")
def test_an_accuracy_that_is_r2_is_called_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A regression has no accuracy, in either tool."""
    pytest.importorskip("tensorboard")
    mlflow = pytest.importorskip("mlflow")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    data = {"name": "synthetic", "task": "regression", "outputs": 1, "partition": "iid"}
    logs, uri = tmp_path / "logs", (tmp_path / "store").as_uri()
    with TensorBoardLog(logs) as log:
        execution.run(small(data=data), tmp_path / "run", Options(watch=log.update))
    run = simfl.load_run(tmp_path / "run")

    identifier, _ = export_to_mlflow(run, uri)

    r2 = run.rounds["accuracy"].tolist()
    read = EventAccumulator(str(logs)).Reload()
    assert [one.value for one in read.Scalars("test/r2")] == pytest.approx(r2)
    client = mlflow.MlflowClient(tracking_uri=uri)
    assert [one.value for one in client.get_metric_history(identifier, "r2")] == r2
    assert "accuracy" not in client.get_run(identifier).data.metrics
    assert "test/accuracy" not in read.Tags()["scalars"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("server", ["silent", "closed"])
def test_a_server_that_does_not_answer(
    run: LoadedRun, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    """One line with its address after a limited time, whether it listens or not."""
    pytest.importorskip("mlflow")
    monkeypatch.setattr("simfl.exports.mlflow.REQUEST_SECONDS", 1)
    monkeypatch.setattr("simfl.exports.mlflow.RETRIES", 0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        uri = f"http://127.0.0.1:{listener.getsockname()[1]}"
        if server == "closed":
            listener.close()
        began = time.monotonic()

        result = CliRunner().invoke(app, ["export", str(run.path), "--mlflow", uri])

    assert time.monotonic() - began < 30
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith(f"simfl: {uri}: MLflow cannot log there: ")
    assert result.stderr.count("\n") == 1
    assert "MLFLOW_HTTP_REQUEST_TIMEOUT" not in os.environ


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("uri", ["nothing://x", "file:///proc/nothing", "sqlite:////proc/x.db"])
def test_a_store_that_cannot_be(run: LoadedRun, uri: str) -> None:
    """One line with its address."""
    pytest.importorskip("mlflow")

    result = CliRunner().invoke(app, ["export", str(run.path), "--mlflow", uri])

    assert result.exit_code == 2, result.output
    assert result.stderr.startswith(f"simfl: {uri}: ") and result.stderr.count("\n") == 1


NO_RUNS: dict[str, Callable[[Path], Any]] = {
    "nothing": shutil.rmtree,
    "no manifest": lambda folder: (folder / "manifest.json").unlink(),
    "a manifest without keys": lambda folder: (folder / "manifest.json").write_text("{}"),
    "no rounds": lambda folder: (folder / "rounds.parquet").unlink(),
    "rounds that are none": lambda folder: (folder / "rounds.parquet").write_bytes(b"PAR1"),
    "no scenario": lambda folder: (folder / "scenario.yaml").write_text("- a\n"),
}


@pytest.mark.parametrize("damage", NO_RUNS)
def test_a_folder_that_is_no_run_is_not_exported(
    run: LoadedRun, tmp_path: Path, damage: str
) -> None:
    """Its name in one line; nothing is sent."""
    pytest.importorskip("mlflow")
    NO_RUNS[damage](run.path)

    result = CliRunner().invoke(app, ["export", str(run.path), "--mlflow", "http://[::1]:9"])

    assert result.exit_code == 2, (result.output, result.exception)
    assert result.stderr.startswith(f"simfl: {run.path}") and result.stderr.count("\n") == 1


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
