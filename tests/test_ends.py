"""However a run ends, its folder says how and why, and can be resumed."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import simfl
from simfl.assembly.simulation import Options, Simulation
from simfl.cli.app import app
from simfl.common.contract import PartMisbehaves
from simfl.eventlog.parquet_parts import write_parquet
from simfl.provenance.journal import Journal
from simfl.runs import execution, outcome, recorder
from simfl.runs.files import LOCK
from simfl.runs.runfolder import write_manifest
from tests.small import SEMI_ASYNCHRONOUS, small
from tests.test_resume import assert_same, cut_off

SCENARIO = small(
    dtype="float32", model="linear", protocol=SEMI_ASYNCHRONOUS, stop={"versions": 8}
).with_overrides(["log.rows_per_segment=60"])


def no_room(*arguments: Any) -> None:
    """What a full disk answers."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "somewhere")


def assert_failed_and_resumed(folder: Path, reason: str) -> None:
    """The manifest says why; a resume gives what an undisturbed run gives."""
    manifest = simfl.load_run(folder).manifest
    assert manifest["status"] == "failed"
    assert reason in manifest["reason"]

    resumed = simfl.run(SCENARIO, folder, resume=True)

    assert_same(simfl.run(SCENARIO, folder.with_name("whole")), resumed)


@pytest.mark.parametrize("name", ["write_rounds", "save", "_clients"])
def test_a_disk_that_is_full_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Tables or the model find no room: the manifest does."""
    monkeypatch.setattr(outcome, name, no_room)
    with pytest.raises(OSError, match="No space left"):
        simfl.run(SCENARIO, tmp_path / "run")
    monkeypatch.undo()

    assert_failed_and_resumed(tmp_path / "run", "No space left on device")


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file may be larger than 25 kB: the disk of a model alone is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (25_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("small_files")
def test_what_finds_no_room_is_named(tmp_path: Path) -> None:
    """The system says of no file that it is too large; libraries have errors of their own."""
    large = SCENARIO.with_overrides({"model": {"name": "mlp", "hidden": [500]}})

    with pytest.raises(OSError, match=r"^\[Errno 27\] File too large: '.*/run/model.safetensors'$"):
        simfl.run(large, tmp_path / "run")
    table = pa.table({"x": np.random.default_rng(1).random(9000)})
    with pytest.raises(OSError, match=r"^\[Errno 27\] File too large: '.*/table.parquet'$"):
        write_parquet(table, tmp_path / "table.parquet")
    with (
        closing(Journal(tmp_path / "j.jsonl")) as journal,
        pytest.raises(OSError, match=r"j\.jsonl"),
    ):
        journal.know("key", lambda: "x" * 30_000)
    assert not [*tmp_path.rglob("*.partial")]


def test_a_manifest_without_room_takes_the_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock's file is made large enough to make room for saying why."""

    def write_where_there_is_room(folder: Path, manifest: dict[str, Any]) -> None:
        if manifest["status"] == "failed" and (folder / LOCK).stat().st_size > 10_000:
            no_room()
        write_manifest(folder, manifest)

    monkeypatch.setattr(outcome, "save", no_room)
    monkeypatch.setattr(recorder, "write_manifest", write_where_there_is_room)
    with pytest.raises(OSError, match="No space left"):
        simfl.run(SCENARIO, tmp_path / "run")
    monkeypatch.undo()

    assert_failed_and_resumed(tmp_path / "run", "No space left on device")


@pytest.mark.slow
def test_a_limit_on_the_size_of_files(tmp_path: Path) -> None:
    """Segments do not fit: exit code 1, one line, and the reason in the manifest."""
    (tmp_path / "run.yaml").write_text(SCENARIO.to_yaml())

    done = subprocess.run(
        [sys.executable, "-m", "simfl", "run", "run.yaml", "--out", "run", "--quiet"],
        cwd=tmp_path,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, 8_000)),
        env={**os.environ, "PYTHONPATH": str(Path(simfl.__file__).parent.parent)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "File too large" in done.stderr
    assert_failed_and_resumed(tmp_path / "run", "File too large")


def test_a_folder_that_was_deleted_stays_deleted(tmp_path: Path) -> None:
    """The run ends with the system's error, for there is nowhere to say more."""

    def delete(progress: Any) -> None:
        if progress.version == 2:
            shutil.rmtree(tmp_path / "run")

    with pytest.raises(OSError, match="No such file"):
        simfl.run(SCENARIO, tmp_path / "run", Options(watch=delete))
    assert not (tmp_path / "run").exists()


def test_segments_that_are_gone_are_missed(tmp_path: Path) -> None:
    """A log is never merged from what happens to be left."""

    def delete(progress: Any) -> None:
        (tmp_path / "run" / "events" / "part-00000.parquet").unlink(missing_ok=True)

    with pytest.raises(ValueError, match=r"part-00000\.parquet: not readable"):
        simfl.run(SCENARIO, tmp_path / "run", Options(watch=delete))
    assert simfl.load_run(tmp_path / "run").manifest["status"] == "failed"


QUITTER = """
import sys
from dataclasses import dataclass
from simfl.algorithms.base import Algorithm

@dataclass(frozen=True)
class Quitter(Algorithm):
    def aggregate(self, state, updates, evaluator):
        if state.version == 2:
            sys.exit(0)
        return super().aggregate(state, updates, evaluator)
"""


def test_a_part_that_calls_exit_leaves_a_closed_run(tmp_path: Path) -> None:
    """Not with the exit code that it asked for: nobody is told that all is done."""
    (tmp_path / "quitter.py").write_text(QUITTER)
    local = {"batch_size": 16, "learning_rate": 0.1}
    scenario = small(algorithm={"name": f"{tmp_path / 'quitter.py'}:Quitter", "local": local})
    (tmp_path / "run.yaml").write_text(scenario.to_yaml())

    done = CliRunner().invoke(
        app, ["run", str(tmp_path / "run.yaml"), "--out", str(tmp_path / "run"), "--quiet"]
    )

    assert done.exit_code == 1
    place = f"{tmp_path / 'quitter.py'}:10"
    assert done.output == f"simfl: {place} in Quitter.aggregate: called sys.exit(0)\n"
    manifest = simfl.load_run(tmp_path / "run").manifest
    assert manifest["status"] == "failed" and manifest["counts"]["versions"] == 2
    with pytest.raises(PartMisbehaves, match=r"sys\.exit"):
        simfl.run(scenario, tmp_path / "run", resume=True)


def test_without_room_for_the_last_manifest_the_first_says_that_the_run_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one is longer, by the digests of files and the warnings."""
    write, full = recorder.write_manifest, OSError(errno.ENOSPC, "no space left")

    def write_what_has_room(folder: Path, manifest: Any) -> None:
        if "files" in manifest:
            raise full
        write(folder, manifest)

    def simulate(*_: Any) -> str:
        raise full

    monkeypatch.setattr(recorder, "write_manifest", write_what_has_room)
    monkeypatch.setattr(execution, "simulate", simulate)
    with pytest.raises(OSError, match="no space left"):
        simfl.run(small(stop={"versions": 1}), tmp_path / "run")

    manifest = simfl.load_run(tmp_path / "run").manifest
    assert manifest["status"] == "failed"
    assert "no space left" in manifest["reason"]


@pytest.mark.parametrize("resume", [False, True])
def test_ctrl_c_before_the_first_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, resume: bool
) -> None:
    """As while clients train alone for a baseline: `interrupted`, and the next resume goes on."""

    def ctrl_c(*_: Any) -> None:
        raise KeyboardInterrupt

    if resume:
        cut_off(SCENARIO, tmp_path / "run", 3)
    monkeypatch.setattr(Simulation, "make_run", ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        simfl.run(SCENARIO, tmp_path / "run", resume=resume)
    monkeypatch.undo()

    left = simfl.load_run(tmp_path / "run").manifest
    assert (left["status"], left["reason"]) == ("interrupted", "interrupted by the user")
    resumed = simfl.run(SCENARIO, tmp_path / "run", resume=True)
    assert_same(simfl.run(SCENARIO, tmp_path / "whole"), resumed)
