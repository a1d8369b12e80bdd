"""Runs that have not come to their end: what report, compare and plot say of them."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner

import simfl
from simfl.assembly.simulation import Options
from simfl.cli.app import app
from simfl.pictures.report import page
from simfl.protocols.run import Run
from simfl.runs import tables_so_far
from simfl.runs.runfolder import LoadedRun, RunFolderError
from simfl.runs.so_far import so_far
from tests.small import small

SCENARIO = small(name="cut", stop={"versions": 6})


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run that was interrupted, one killed, one that came to its end, and one just begun."""
    folder = tmp_path_factory.mktemp("runs")

    def watch(progress: Any) -> None:
        if progress.version == 4:
            shutil.copytree(folder / "interrupted", folder / "killed")
            raise KeyboardInterrupt

    options = Options(watch=watch, snapshot_seconds=0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables_so_far, "MOST_TIME", 1e9)
        with pytest.raises(KeyboardInterrupt):
            simfl.run(SCENARIO, folder / "interrupted", options)
    simfl.run(SCENARIO, folder / "whole")
    tables = shutil.ignore_patterns("rounds.parquet", "evaluations.parquet")
    shutil.copytree(folder / "killed", folder / "begun", ignore=tables)
    return folder


def command(*arguments: object) -> Any:
    """What `simfl` does with these arguments, in this process, in wide lines."""
    return CliRunner(env={"COLUMNS": "400"}).invoke(app, [str(one) for one in arguments])


def resumed(sentence: str) -> LoadedRun:
    """The run after the command that a sentence names."""
    asked = shlex.split(sentence.partition("`simfl ")[2].partition("`")[0])
    result = command(*asked, "--quiet")
    assert result.exit_code == 0, result.output
    return simfl.load_run(asked[asked.index("--out") + 1])


@pytest.mark.parametrize(("how", "versions"), [("interrupted", 4), ("killed", 3)])
def test_a_run_without_an_end_is_shown_as_far_as_it_is_known(
    runs: Path, how: str, versions: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It says so at once, with the command that goes on; its rounds are those of the whole run."""
    monkeypatch.setattr(page, "plotly_script", lambda: "")
    run = tmp_path / "a run"
    shutil.copytree(runs / how, run)
    whole = simfl.load_run(runs / "whole")

    report, compared, drawn = (
        command("report", run),
        command("compare", run, runs / "whole"),
        command("plot", run),
    )

    time_s = whole.rounds["time_s"][versions - 1]
    said = f"figures are those until version {versions}, at {time_s:.4g} s of simulated time"
    for one in (report, compared, drawn):
        assert one.exit_code == 0, (one.output, one.exception)
        assert f"{run}: not ended" in one.stdout and said in one.stdout
    assert said in (run / "report.html").read_text("utf-8")
    assert simfl.load_run(run).rounds.equals(whole.rounds.head(versions))
    (bytes_of,) = [line for line in compared.stdout.splitlines() if line.startswith("│ bytes ")]
    assert [cell.strip() for cell in bytes_of.split("│")[2:4]] == [
        str(whole.rounds["bytes"][versions - 1]),
        str(whole.manifest["bytes"]),
    ]
    for of_the_end in ("merged_updates", "client_rounds"):
        (line,) = [line for line in compared.stdout.splitlines() if f"│ {of_the_end} " in line]
        assert line.split("│")[2].strip() == "-"
    again = resumed(so_far(simfl.load_run(run)) or "")
    assert again.manifest["fingerprint"] == whole.manifest["fingerprint"]
    assert so_far(again) is None


def test_a_run_that_has_just_begun_has_nothing_to_show(runs: Path) -> None:
    """One line that says what to do, and no page."""
    result = command("report", runs / "begun")

    assert result.exit_code == 2 and not (runs / "begun" / "report.html").exists()
    assert "has no table of its versions yet; the run's status is running" in result.stderr
    assert result.stderr.count("\n") == 1
    with pytest.raises(RunFolderError):
        so_far(simfl.load_run(runs / "begun"))


def test_targets_that_were_met_are_compared(runs: Path) -> None:
    """What was spent until then stays as it is; what was spent so far is no difference."""
    result = command("compare", runs / "whole", runs / "killed", "--accuracy", 0.05)

    lines = {line.split("│")[1].strip(): line for line in result.stdout.splitlines() if "│" in line}
    assert "(+0, +0.0%)" in lines["time_to_accuracy_0.05_s"]
    assert "%" not in lines["time_s"] and "%" not in lines["energy_j"]


def test_tables_take_little_of_a_runs_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They are not written again before a hundred times as long has gone by."""
    written: list[float] = []
    now = iter([0.0, 2.0, 201.0, 202.5, 203.0])
    monkeypatch.setattr(tables_so_far, "write_rounds", lambda *_: written.append(1.0))
    monkeypatch.setattr(tables_so_far.time, "monotonic", lambda: next(now))
    tables, unread = tables_so_far.TablesSoFar(tmp_path), cast(Run, object())

    for _ in range(3):
        tables.write(unread)

    assert len(written) == 2
