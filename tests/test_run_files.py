"""A run folder belongs to one run: nothing of anybody else's is removed, followed or mixed in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import simfl
from simfl.assembly.simulation import Options
from simfl.cli.app import app
from simfl.common.files import RunFolderError
from simfl.runs.files import LOCK, FolderInUse, claimed
from simfl.scenario.scenario import Scenario
from tests.small import small
from tests.test_resume import cut_off

EXTENSION = {"manifest_version": 3, "name": "Reader", "version": "1.0", "status": "running"}


def scenario(**changes: Any) -> Scenario:
    """A run of a fraction of a second."""
    return small(
        dtype="float32", model="linear", stop={"versions": 3}, log={"rows_per_segment": 20}
    ).with_overrides([f"{key}={value}" for key, value in changes.items()])


def everything(folder: Path) -> dict[str, bytes | None]:
    """Every path below a folder with its bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def extension(tmp_path: Path) -> Path:
    """The folder of a browser extension."""
    folder = tmp_path / "extension"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "reader.js").write_text("read()")
    (folder / "events").mkdir()
    (folder / "events" / "part-00000.parquet").write_text("theirs")
    (folder / "manifest.json").write_text(json.dumps(EXTENSION))
    return folder


@pytest.mark.parametrize("flags", [[], ["--overwrite"], ["--resume"]], ids=str)
def test_a_foreign_manifest_makes_no_run_folder(
    extension: Path, tmp_path: Path, flags: list[str]
) -> None:
    """It is refused whatever is asked for, nobody is told to overwrite it, nothing is touched."""
    before = everything(extension)
    (tmp_path / "run.yaml").write_text(scenario().to_yaml())

    done = CliRunner().invoke(
        app, ["run", str(tmp_path / "run.yaml"), "--out", str(extension), *flags]
    )

    assert done.exit_code == 2
    assert "not a manifest of simfl's" in done.output
    assert "--overwrite" not in done.output and done.output.count("\n") == 1
    assert everything(extension) == before


def test_overwriting_removes_what_simfl_wrote_and_nothing_else(tmp_path: Path) -> None:
    """Notes, a folder of the user's and a file among the segments stay."""
    folder = tmp_path / "run"
    cut_off(scenario(), folder, 2)
    (folder / "notes.txt").write_text("mine")
    (folder / "src").mkdir()
    (folder / "src" / "model.py").write_text("mine")
    (folder / "events" / "notes.txt").write_text("mine")
    (folder / "clients.parquet").write_text("of an earlier run")

    run = simfl.run(scenario(seed=4), folder, overwrite=True)

    assert run.manifest["seed"] == 4 and len(run.clients) == 8
    kept = {name for name, content in everything(folder).items() if content == b"mine"}
    assert kept == {"notes.txt", "src/model.py", "events/notes.txt"}
    assert not (folder / "snapshot.pt").exists() and not (folder / LOCK).exists()


@pytest.mark.parametrize("flags", [{}, {"overwrite": True}, {"resume": True}], ids=str)
def test_a_link_to_a_folder_is_not_followed(tmp_path: Path, flags: dict[str, bool]) -> None:
    """The user is to name the folder itself."""
    simfl.run(scenario(), tmp_path / "run")
    (tmp_path / "link").symlink_to(tmp_path / "run")
    before = everything(tmp_path / "run")

    with pytest.raises(FolderInUse, match=r"link: a symbolic link; name the folder"):
        simfl.run(scenario(), tmp_path / "link", **flags)
    assert everything(tmp_path / "run") == before


@pytest.mark.parametrize(
    "name", ["journal.jsonl", "manifest.partial", "snapshot.partial", "events", "standalone"]
)
def test_a_planted_link_is_not_followed(tmp_path: Path, name: str) -> None:
    """A resume writes to nothing that a link in the folder leads to."""
    cut_off(scenario(), tmp_path / "run", 2)
    target = tmp_path / "target"
    target.mkdir() if name in ("events", "standalone") else target.write_text("precious")
    place = tmp_path / "run" / name
    if place.is_dir():
        place.rename(tmp_path / "moved")
    place.unlink(missing_ok=True)
    place.symlink_to(target)
    before = everything(tmp_path)

    for flags in ({"resume": True}, {"overwrite": True}):
        with pytest.raises(FolderInUse, match=f"{name}: a symbolic link where simfl writes"):
            simfl.run(scenario(), tmp_path / "run", **flags)

    assert everything(tmp_path) == before


@pytest.mark.parametrize("name", ["clients.parquet", "events"])
def test_what_is_in_the_way_is_told_before_anything_is_written(tmp_path: Path, name: str) -> None:
    """A folder of the user's where a table goes, a file where the segments go."""
    simfl.run(scenario(), tmp_path / "run")
    place = tmp_path / "run" / name
    place.unlink(missing_ok=True)
    place.write_text("mine") if name == "events" else place.mkdir()
    before = everything(tmp_path)

    with pytest.raises(FolderInUse, match=f"{name}: a .* where simfl writes a .*; remove it"):
        simfl.run(scenario(), tmp_path / "run", overwrite=True)
    assert everything(tmp_path) == before


@pytest.mark.parametrize(
    ("seed", "flags"),
    [(2, []), (2, ["--overwrite"]), (1, []), (1, ["--overwrite"]), (1, ["--resume"])],
    ids=str,
)
def test_the_second_comer_is_refused_while_a_run_goes_on(
    tmp_path: Path, seed: int, flags: list[str]
) -> None:
    """Another seed, the same run over again, or its resume: the first one ends as if alone."""
    (tmp_path / "run.yaml").write_text(scenario().to_yaml())
    command = ["run", str(tmp_path / "run.yaml"), "--seed", str(seed), "--out"]
    refused = []

    def come_second(progress: Any) -> None:
        done = CliRunner().invoke(app, [*command, str(tmp_path / "run"), *flags])
        refused.append((done.exit_code, done.output.count("\n")))
        assert "a run is going on in this folder" in done.output or "holds a run" in done.output

    run = simfl.run(scenario(seed=1), tmp_path / "run", Options(watch=come_second))

    assert refused == [(2, 1)] * 3
    alone = simfl.run(scenario(seed=1), tmp_path / "alone")
    assert run.manifest["fingerprint"] == alone.manifest["fingerprint"]
    assert run.scenario["seed"] == 1
    assert (run.path / "events.parquet").read_bytes() == (
        alone.path / "events.parquet"
    ).read_bytes()


def test_who_is_faster_between_two_looks_has_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was begun and ended while another one was made ready is not mixed with it."""
    folder, assemble = tmp_path / "run", simfl.runs.execution.assemble

    def slow(*arguments: Any) -> Any:
        monkeypatch.undo()
        simfl.run(scenario(seed=1), folder)
        return assemble(*arguments)

    monkeypatch.setattr(simfl.runs.execution, "assemble", slow)
    with pytest.raises(FolderInUse, match="holds a run"):
        simfl.run(scenario(seed=2), folder)
    assert simfl.load_run(folder).scenario["seed"] == 1


def test_a_lock_that_a_killed_run_left_behind_locks_nobody_out(tmp_path: Path) -> None:
    """The operating system frees it; the file alone says nothing."""
    with claimed(tmp_path / "run"):
        held = (tmp_path / "run" / LOCK).read_bytes()
    (tmp_path / "run" / LOCK).write_bytes(held)

    assert simfl.run(scenario(), tmp_path / "run").manifest["status"] == "completed"


def test_a_path_that_is_not_utf_8_is_bad_input(tmp_path: Path) -> None:
    """As one in Latin-1: tables cannot be written there."""
    folder = tmp_path / "l\udce4t"

    with pytest.raises(FolderInUse, match="a path that is not UTF-8; choose another --out"):
        simfl.run(scenario(), folder)
    assert not folder.exists()


@pytest.mark.parametrize("name", ["file/run", "a" * 300])
def test_a_path_that_cannot_be_made_is_bad_input(tmp_path: Path, name: str) -> None:
    """Exit code 2, with the path."""
    (tmp_path / "file").write_text("")
    (tmp_path / "run.yaml").write_text(scenario().to_yaml())

    done = CliRunner().invoke(
        app, ["run", str(tmp_path / "run.yaml"), "--out", str(tmp_path / name)]
    )

    assert done.exit_code == 2
    assert "cannot be made" in done.output and done.output.count("\n") == 1


@pytest.mark.parametrize("name", ["events", "rounds", "clients", "evaluations"])
def test_tables_of_another_run_are_told(tmp_path: Path, name: str) -> None:
    """They are as readable as the run's own; only the manifest's digests know."""
    run = simfl.run(scenario(seed=1), tmp_path / "run")
    other = simfl.run(scenario(seed=2), tmp_path / "other")
    forged = f"{name}.parquet"
    (run.path / forged).write_bytes((other.path / forged).read_bytes())

    with pytest.raises(RunFolderError, match=f"{name}.parquet: damaged, or of another run"):
        getattr(simfl.load_run(run.path), name)


@pytest.mark.parametrize("name", ["events", "rounds", "clients"])
def test_a_table_that_is_gone_is_told(name: str, tmp_path: Path) -> None:
    """Not taken for a run without events, or for one that has not ended."""
    simfl.run(small(), tmp_path / "run")
    (tmp_path / "run" / f"{name}.parquet").unlink()

    run = simfl.load_run(tmp_path / "run")
    with pytest.raises(RunFolderError, match=f"{name}.parquet: not there; the run's status is co"):
        getattr(run, name)
    reported = CliRunner().invoke(app, ["report", str(tmp_path / "run")])
    assert reported.exit_code == 2
    assert f"{name}.parquet: not there" in " ".join(reported.output.split())


def test_a_scenario_of_another_run_is_told(tmp_path: Path) -> None:
    """`scenario` is what was run, or an error."""
    run = simfl.run(scenario(seed=1), tmp_path / "run")
    (run.path / "scenario.yaml").write_text(scenario(seed=2).to_yaml())

    with pytest.raises(RunFolderError, match=r"scenario\.yaml: damaged, or of another run"):
        _ = simfl.load_run(run.path).scenario


def test_a_mixture_that_an_earlier_version_left_is_told(tmp_path: Path) -> None:
    """Its manifest has no digests, but says how many events there were."""
    run = simfl.run(scenario(), tmp_path / "run")
    manifest = {key: value for key, value in run.manifest.items() if key != "files"}
    manifest["counts"]["events"] += 1
    (run.path / "manifest.json").write_text(json.dumps(manifest))

    with pytest.raises(RunFolderError, match="files are of several runs"):
        _ = simfl.load_run(run.path).events
