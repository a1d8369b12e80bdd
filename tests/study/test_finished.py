"""A finished study is opened again without planning it, as long as nothing has changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from simfl.cli.app import app
from simfl.study import session as sessions
from simfl.study.finished import FINISHED, is_finished, set_finished
from simfl.study.studyfile import Study
from tests.study.studies import run_here, session, write_study

CLIPPED = Path(__file__).parents[2] / "docs" / "examples" / "clipped_average.py"


def command(*arguments: object) -> Any:
    """What `simfl study` does with these arguments, in this process."""
    return CliRunner().invoke(app, ["study", *map(str, arguments)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny study with an algorithm of one's own, run to its end; `out` is its folder."""
    made = tmp_path_factory.mktemp("study")
    (made / "own.py").write_text(CLIPPED.read_text())
    local = {"steps": 1, "batch_size": 32, "learning_rate": 0.1}
    base = {"algorithm": {"name": "own.py:ClippedAverage", "local": local}}
    one = session(made, base=base, points={"grid": {"algorithm.local.steps": [1, 2]}}, seeds=[1])
    run_here(one)
    one.collect()
    return made


def tiny(folder: Path) -> Study:
    """The study as its file says it now."""
    return Study.from_yaml(folder / "tiny.yaml")


def test_what_is_finished_is_answered_at_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same words as after gathering, and the picture if that is not there."""
    asked = [folder / "tiny.yaml", "--out", folder / "out"]
    gathered = command(*asked, "--shard", "1/1").exit_code, command(*asked)
    (folder / "out" / "overview.png").unlink()

    def planned(*_: object) -> None:
        raise AssertionError("planned again")

    monkeypatch.setattr(sessions, "points", planned)
    again = command(*asked)

    assert gathered[0] == again.exit_code == 0, again.output
    assert gathered[1].stdout == again.stdout
    assert "means" in again.stdout
    assert (folder / "out" / "overview.png").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: write_text(folder / "own.py", "# more\n"),
        lambda folder: write_text(folder / "base.yaml", "name: other\n"),
        lambda folder: write_text(folder / "tiny.yaml", "name: other\n"),
        lambda folder: write_text(next((folder / "out" / "runs").glob("*/rounds.parquet")), "x"),
        lambda folder: next((folder / "out" / "runs").glob("*/clients.parquet")).unlink(),
        lambda folder: write_text(folder / "out" / "runs.parquet", "x"),
        lambda folder: (folder / "out" / FINISHED).write_text("{"),
    ],
    ids=["code", "scenario", "study", "run", "table of a run", "table", "note"],
)
def test_any_change_has_it_planned_and_gathered_again(
    change: Callable[[Path], object], folder: Path
) -> None:
    """What the change was is undone behind it."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    dates = {path: path.stat() for path in before}
    assert is_finished(tiny(folder), folder / "out")

    change(folder)

    assert not is_finished(tiny(folder), folder / "out")
    for path, content in before.items():
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)
            os.utime(path, ns=(dates[path].st_atime_ns, dates[path].st_mtime_ns))


def test_a_study_with_runs_to_do_or_with_a_module_somewhere_is_not_finished(tmp_path: Path) -> None:
    """A module may be installed, and then nobody knows its files."""
    session(tmp_path, seeds=[1]).collect()

    assert not (tmp_path / "out" / FINISHED).exists()
    write_study(tmp_path, seeds=[1], set={"model": "package.module:Net"})
    study = tiny(tmp_path)
    set_finished(study, tmp_path / "out")
    assert not is_finished(study, tmp_path / "out")


def test_data_that_have_changed_have_it_planned_again(tmp_path: Path) -> None:
    """A file below the data root that an option names, and texts in a folder beside the study."""
    root, beside = tmp_path / "root", tmp_path / "texts"
    for one in (root, beside):
        one.mkdir()
    (root / "mine.csv").write_text("a,y\n" + "1,0\n2,1\n" * 20)
    (beside / "one.txt").write_text("some words " * 20)
    for data in ({"name": "csv", "path": "mine.csv", "label": "y"}, {"path": "texts"}):
        write_study(tmp_path, seeds=[1], set={"data": data})
        study, out = tiny(tmp_path), tmp_path / "out"
        out.mkdir(exist_ok=True)
        (out / "runs.parquet").write_text("a table")
        set_finished(study, out, root)
        assert is_finished(study, out, root)

        changed = root / "mine.csv" if "label" in data else beside / "one.txt"
        write_text(changed, "3,1\n")

        assert not is_finished(study, out, root)


def write_text(path: Path, more: str) -> None:
    """Add to a file."""
    with path.open("a") as file:
        file.write(more)
