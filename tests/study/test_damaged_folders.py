"""A study's folder with damaged files: they are named, and the rest continues."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from simfl.cli.app import app
from simfl.runs import outcome
from simfl.runs.execution import FolderInUse
from simfl.study.loaded import load_study
from simfl.study.worker import work
from tests.study.studies import run_here, session, write_study

ONE_FACTOR = {"points": {"grid": {"algorithm.local.steps": [1, 2]}}, "seeds": [1]}


def command(*arguments: object) -> Any:
    """What `simfl` does with these arguments, in this process."""
    return CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study of two points that has been run and gathered; not to be changed."""
    folder = tmp_path_factory.mktemp("sound")
    one = session(folder, **ONE_FACTOR)
    assert [outcome.status for outcome in run_here(one)] == ["completed"] * 2
    one.collect()
    return folder


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    """A copy of it, with the study's file."""
    shutil.copytree(sound, tmp_path, dirs_exist_ok=True)
    return tmp_path


def first_run(folder: Path) -> Path:
    """The run folder of the first point."""
    return folder / "out" / str(pd.read_parquet(folder / "out/runs.parquet")["folder"].iloc[0])


def forge(folder: Path) -> None:
    """Figures that are no numbers, in a manifest that says `completed`."""
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "counts": "many"}))


def flatter(folder: Path) -> None:
    """A table that reads as well as the run's own, with better figures."""
    rounds = pd.read_parquet(folder / "rounds.parquet")
    rounds.assign(accuracy=rounds["accuracy"] + 0.1).to_parquet(folder / "rounds.parquet")


DAMAGED_RUNS: dict[str, Callable[[Path], Any]] = {
    "no manifest that can be read": lambda folder: (folder / "manifest.json").write_text("{"),
    "a list as its manifest": lambda folder: (folder / "manifest.json").write_text("[]"),
    "a manifest without keys": lambda folder: (folder / "manifest.json").write_text("{}"),
    "a manifest of other types": forge,
    "no rounds": lambda folder: (folder / "rounds.parquet").unlink(),
    "rounds that are none": lambda folder: (folder / "rounds.parquet").write_bytes(b"PAR1"),
    "forged rounds": flatter,
    "rounds of another kind": lambda folder: shutil.copy(
        folder / "clients.parquet", folder / "rounds.parquet"
    ),
}


@pytest.mark.parametrize("damage", DAMAGED_RUNS)
def test_a_damaged_run_is_named_and_the_others_have_their_rows(folder: Path, damage: str) -> None:
    """Exit code 1, its folder in a line, a table of the others; another point runs on."""
    run = first_run(folder)
    DAMAGED_RUNS[damage](run)

    result = command("study", folder / "tiny.yaml", "--out", folder / "out", "--collect", "--quiet")

    assert result.exit_code == 1, (result.output, result.exception)
    assert result.stderr.startswith("simfl: ") and run.name in result.stderr
    assert result.stderr.count("\n") == 1
    assert load_study(folder / "out").table["algorithm.local.steps"].tolist() == [2]


def test_a_damaged_run_fails_alone(folder: Path) -> None:
    """Running the study again tries it, or refuses it by name, and nothing else is lost."""
    run = first_run(folder)
    (run / "manifest.json").write_text("[]")
    shutil.rmtree(
        folder
        / "out"
        / "runs"
        / sorted(path.name for path in run.parent.iterdir() if path != run)[0]
    )
    one = session(folder, **ONE_FACTOR)

    outcomes = {outcome.name: outcome for outcome in run_here(one)}

    assert sorted(outcome.status for outcome in outcomes.values()) == ["completed", "failed"]
    assert str(run) in outcomes[run.name].message


@pytest.mark.parametrize("name", ["locks/{}.lock", "results", "runs/{}"])
def test_what_is_in_the_way_is_named(folder: Path, name: str) -> None:
    """A folder as a lock, a file as the results' or a run's folder: the point fails by name."""
    run = first_run(folder)
    way = folder / "out" / name.format(run.name)
    one = session(folder, **ONE_FACTOR)
    shutil.rmtree(run)
    if way.is_dir():
        shutil.rmtree(way)
    way.unlink(missing_ok=True)
    if name.startswith("locks"):
        way.mkdir()
    else:
        way.write_text("mine")

    (outcome,) = run_here(one)

    assert outcome.status == "failed"
    assert str(way) in outcome.message
    assert way.exists()


OTHER_TABLES: dict[str, Callable[[Path], Any]] = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "emptied": lambda path: path.write_bytes(b""),
    "of other columns": lambda path: pd.DataFrame({"a": [1]}).to_parquet(path),
    "of another study": lambda path: pd.read_parquet(path).assign(study="x").to_parquet(path),
    "of words": lambda path: pd.read_parquet(path).assign(energy_j="much").to_parquet(path),
}


@pytest.mark.parametrize("damage", OTHER_TABLES)
def test_another_table_of_runs(folder: Path, damage: str) -> None:
    """A report refuses it in one line that says what makes it anew; and that does."""
    OTHER_TABLES[damage](folder / "out" / "runs.parquet")

    result = command("report", folder / "out")

    assert result.exit_code == 2, (result.output, result.exception)
    assert result.stderr.startswith(f"simfl: {folder}/out/runs.parquet: ")
    assert "--collect" in result.stderr and result.stderr.count("\n") == 1
    again = ("study", folder / "tiny.yaml", "--out", folder / "out", "--collect", "--quiet")
    assert command(*again).exit_code == 0
    assert command("report", folder / "out").exit_code == 0


@pytest.mark.parametrize(
    "text", ["", "[1]", "name: 3\nscenario: []\n", "name: x\n", "a: {b", "questions: 3\n", "\x00"]
)
def test_another_file_as_the_studys(folder: Path, text: str) -> None:
    """A report refuses it in one line with its name."""
    (folder / "out" / "study.yaml").write_text(text)

    result = command("report", folder / "out")

    assert result.exit_code == 2, (result.output, result.exception)
    assert result.stderr.startswith(f"simfl: {folder}/out/study.yaml:")
    assert result.stderr.count("\n") == 1


def test_gathering_what_is_not_there(tmp_path: Path) -> None:
    """An empty folder: no run, no traceback, every point missing."""
    (tmp_path / "out").mkdir()
    file = write_study(tmp_path, **ONE_FACTOR)

    result = command("study", file, "--out", tmp_path / "out", "--collect")

    assert result.exit_code == 1
    assert "no run has completed yet" in result.stdout and "2 runs are missing" in result.stdout


def test_gathering_from_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """A misspelt folder: told in one line, and not made."""
    file = write_study(tmp_path, **ONE_FACTOR)

    result = command("study", file, "--out", tmp_path / "uot", "--collect")

    assert result.exit_code == 2 and not (tmp_path / "uot").exists()
    assert result.stderr == f"simfl: {tmp_path}/uot: no such folder, and no runs to gather\n"


def test_the_folder_of_another_study_is_refused(folder: Path) -> None:
    """It says whose it is and what to do; nothing in it changes, and its own study goes on."""
    own, other = folder / "tiny.yaml", folder / "other.yaml"
    other.write_text(own.read_text())
    before = (folder / "out" / "study.yaml").read_bytes()

    refused = command("study", other, "--out", folder / "out", "--collect")
    unchanged = (folder / "out" / "study.yaml").read_bytes() == before
    goes_on = command("study", own, "--out", folder / "out", "--collect", "--quiet")
    other.write_text("name: tiny\n" + own.read_text())
    renamed = command("study", other, "--out", folder / "out", "--collect", "--quiet")

    assert (refused.exit_code, goes_on.exit_code, renamed.exit_code) == (2, 0, 0) and unchanged
    assert refused.stderr == (
        f"simfl: {folder}/out: holds 2 runs of the study 'tiny', and this one is 'other'; choose"
        " another --out, or, if it is the same study under a new name, write 'name: tiny' into its"
        " file\n"
    )


def test_a_run_that_lost_its_table_is_no_run_of_other_settings(folder: Path) -> None:
    """It is named, and the last line counts it as damaged."""
    (first_run(folder) / "rounds.parquet").unlink()

    result = command("study", folder / "tiny.yaml", "--out", folder / "out", "--collect")

    assert result.exit_code == 1 and "rounds.parquet" in result.stderr
    assert result.stdout.endswith("; 1 run is damaged\n")


def test_runs_of_settings_that_a_study_had_are_counted(folder: Path) -> None:
    """They are left alone, and the folder's line says how many there are."""
    study = yaml.safe_load((folder / "tiny.yaml").read_text())
    key, values = next(iter(study["points"]["grid"].items()))
    study["points"]["grid"] = {key: values[:1]}
    (folder / "tiny.yaml").write_text(yaml.safe_dump(study))

    result = command("study", folder / "tiny.yaml", "--out", folder / "out", "--collect")
    again = command("study", folder / "tiny.yaml", "--out", folder / "out", "--collect")

    said = f"study folder: {folder}/out; it has 1 more run, of settings that the study had before\n"
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith(said) and again.stdout.endswith(said)


def test_gathering_is_of_all_shares(folder: Path) -> None:
    """A share beside it would count the missing runs of that share alone: refused."""
    asked = ("study", folder / "tiny.yaml", "--out", folder / "out", "--collect", "--shard", "1/2")

    result = command(*asked)

    assert result.exit_code == 2
    assert result.stderr == (
        "simfl: --shard: without --collect, which gathers the runs of all shares\n"
    )


def test_a_quiet_study_says_what_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has seen it fail, and its exit code is not 0."""
    monkeypatch.setattr(
        "simfl.study.session.run_locally", lambda tasks, *_: (work(task) for task in tasks)
    )
    (tmp_path / "own.py").write_text(
        "from simfl.decisions.base import Selection\n\n\nclass Own(Selection):\n"
        "    def decide(self, memory, view, rng):\n        raise RuntimeError('no choice')\n"
    )
    points = {"grid": {"decisions.selection": ["all", "own.py:Own"]}}
    file = write_study(tmp_path, points=points, seeds=[1])

    result = command("study", file, "--out", tmp_path / "out", "--quiet")

    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("simfl: selection=own.py:Own, seed=1: failed: PartMisbehaves: ")
    assert line.endswith("RuntimeError: no choice")


def test_a_full_disk_ends_a_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one error; every further run would fail as well. With room the same command goes on."""

    def no_room(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "somewhere")

    monkeypatch.setattr(
        "simfl.study.session.run_locally", lambda tasks, *_: (work(task) for task in tasks)
    )
    file = write_study(tmp_path, **{**ONE_FACTOR, "seeds": [1, 2]})
    asked = ("study", file, "--out", tmp_path / "out", "--quiet")
    with monkeypatch.context() as full:
        full.setattr(outcome, "save", no_room)
        result = command(*asked)

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"simfl: {tmp_path}/out: No space left on device, and 4 runs are missing; free some space"
        " and give the same command again\n"
    )
    assert len(list((tmp_path / "out" / "runs").iterdir())) == 1
    assert command(*asked).exit_code == 0


def test_a_study_file_of_the_users_is_not_overwritten(tmp_path: Path) -> None:
    """A folder that merely holds a `study.yaml`, comments and all, is no study's folder."""
    write_study(tmp_path, **ONE_FACTOR)
    text = "# mine\n" + (tmp_path / "tiny.yaml").read_text()
    (tmp_path / "study.yaml").write_text(text)

    result = command("study", tmp_path / "study.yaml", "--out", tmp_path, "--quiet")

    assert result.exit_code == 2
    assert "no study's folder" in result.stderr
    assert (tmp_path / "study.yaml").read_text() == text
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "study.yaml").write_text(text)
    with pytest.raises(FolderInUse, match="no study's folder"):
        session(tmp_path, **ONE_FACTOR)
