"""140 damages to a run folder: each is refused in one line, or the result is the undamaged one's.

A seed draws the state of the run (completed, interrupted, killed), a file, and what happened to
it; then one of seven things is done with the folder.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import typer
from click.testing import Result
from safetensors.torch import load_file
from typer.testing import CliRunner

import simfl
from simfl.assembly.simulation import Options
from simfl.cli.app import app
from simfl.cli.common import exit_codes
from simfl.runs.execution import federation_of
from simfl.runs.runfolder import LoadedRun, load_run
from simfl.scenario.scenario import Scenario
from tests.attack.damages import contents, copied, damages_of, files_below
from tests.small import SEMI_ASYNCHRONOUS, small

pytestmark = pytest.mark.slow

CASES = 140
STATES = ("completed", "interrupted", "killed")
TABLES = ("events", "rounds", "clients", "evaluations")
FOREIGN = {"notes.txt": "mine", "src/app.js": "also mine", "events/own.txt": "and this"}
TOLD_BY = ("manifest.json", "scenario.yaml")
"""Files whose words a report repeats: with a changed name it is another page, and rightly so."""


def scenario(seed: int = 3) -> Scenario:
    """Three versions in a tenth of a second, with several segments and something to resume."""
    return small(
        seed=seed,
        dtype="float32",
        data={"name": "digits", "partition": "iid"},
        model="linear",
        population={"clients": 4},
        protocol=SEMI_ASYNCHRONOUS,
        stop={"versions": 3},
        log={"rows_per_segment": 10},
    )


@dataclass(frozen=True)
class References:
    """Undamaged folders by state, what they show, and another seed's beside them."""

    folders: dict[str, Path]
    others: dict[str, Path]
    file: Path
    pages: dict[str, bytes]
    compared: str


def command(*arguments: object) -> Result:
    """What `simfl` does with these arguments, in this process."""
    return CliRunner().invoke(app, [str(one) for one in arguments])


def make_states(folder: Path, seed: int) -> dict[str, Path]:
    """A completed run, one that was interrupted at its second version, and one killed there."""
    folder.mkdir()

    def stop(progress: Any) -> None:
        if progress.version == 2:
            copied(folder / "interrupted", folder / "killed")
            raise KeyboardInterrupt

    simfl.run(scenario(seed), folder / "completed", Options(snapshot_seconds=0.0))
    with pytest.raises(KeyboardInterrupt):
        simfl.run(scenario(seed), folder / "interrupted", Options(watch=stop, snapshot_seconds=0.0))
    return {state: folder / state for state in STATES}


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> References:
    """Made once; nothing in them is changed."""
    base = tmp_path_factory.mktemp("references")
    file = base / "scenario.yaml"
    file.write_text(scenario().to_yaml())
    folders, others = make_states(base / "mine", 3), make_states(base / "others", 4)
    copied(folders["completed"], base / "run")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(base)
        patch.setenv("COLUMNS", "200")
        for one in ("report", "trace"):
            assert command(one, "run").exit_code == 0
        compared = command("compare", "run", folders["completed"]).stdout
    pages = {name: (base / "run" / name).read_bytes() for name in ("report.html", "trace.json")}
    return References(folders, others, file, pages, compared)


Check = Callable[[References, str, str], None]


def look(what: Callable[[], Any]) -> Result:
    """What a user's own program does, with errors turned into exit codes as the commands do."""
    looking = typer.Typer(pretty_exceptions_enable=False)

    @looking.command()
    def _look() -> None:
        with exit_codes():
            what()

    return CliRunner().invoke(looking, [])


def assert_equal_tables(expected: LoadedRun, found: LoadedRun) -> None:
    """Every table that the undamaged folder has is there, and has the same values."""
    for name in TABLES:
        if name == "events" or (expected.path / f"{name}.parquet").exists():
            pd.testing.assert_frame_equal(getattr(expected, name), getattr(found, name))


def assert_equal_ends(expected: Path, found: Path) -> None:
    """The same bytes of events, the same tables, bit-identical models."""
    assert (found / "events.parquet").read_bytes() == (expected / "events.parquet").read_bytes()
    for name in TABLES:
        left, right = (pd.read_parquet(one / f"{name}.parquet") for one in (expected, found))
        pd.testing.assert_frame_equal(left, right)
    models = [load_file(one / "model.safetensors") for one in (expected, found)]
    assert models[0].keys() == models[1].keys()
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])


def load(references: References, state: str, _name: str) -> Result:
    """Read every table and the scenario."""

    def read() -> None:
        run = load_run("run")
        for name in TABLES:
            if name == "events" or (references.folders[state] / f"{name}.parquet").exists():
                getattr(run, name)
        assert_equal_tables(load_run(references.folders[state]), run)

    return look(read)


def resume(references: References, _state: str, _name: str) -> Result:
    """Go on, to the same end."""
    result = command("run", references.file, "--out", "run", "--resume", "--quiet")
    if result.exit_code == 0:
        assert_equal_ends(references.folders["completed"], Path("run"))
    return result


def overwrite(references: References, _state: str, _name: str) -> Result:
    """Start again with the same result, or leave everything unchanged."""
    before = contents(Path("run"))
    result = command("run", references.file, "--out", "run", "--overwrite", "--quiet")
    if result.exit_code == 0:
        assert_equal_ends(references.folders["completed"], Path("run"))
    else:
        assert contents(Path("run")) == before, (result.output, result.exception)
    return result


def report(references: References, state: str, name: str) -> Result:
    """A page; the same one where nothing that it repeats was changed."""
    result = command("report", "run")
    if result.exit_code == 0 and state == "completed" and name not in TOLD_BY:
        assert Path("run/report.html").read_bytes() == references.pages["report.html"]
    return result


def trace(references: References, state: str, _name: str) -> Result:
    """A trace, the same one."""
    result = command("trace", "run")
    if result.exit_code == 0 and state == "completed":
        assert Path("run/trace.json").read_bytes() == references.pages["trace.json"]
    return result


def compare(references: References, state: str, name: str) -> Result:
    """With the undamaged run: no difference in any figure."""
    result = command("compare", "run", references.folders["completed"])
    if result.exit_code == 0 and state == "completed" and name not in TOLD_BY:
        assert result.stdout == references.compared
    return result


def federate(references: References, state: str, _name: str) -> Result:
    """The final model and the clients' data, the same ones."""

    def read() -> None:
        found, expected = (federation_of(one) for one in ("run", references.folders[state]))
        assert all(
            torch.equal(found.weights[name], expected.weights[name]) for name in found.weights
        )
        for left, right in zip(found.agents, expected.agents, strict=True):
            assert torch.equal(left.inputs, right.inputs)
            assert torch.equal(left.targets, right.targets)

    return look(read)


DEEDS = (load, resume, overwrite, report, trace, compare, federate)


def plant(folder: Path, rng: random.Random, outside: Path) -> str:
    """Files and links that are not the run's own."""
    name = rng.choice([*FOREIGN, "journal.jsonl", "snapshot.pt", "events.before", "trace.json"])
    if name in FOREIGN:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(FOREIGN[name])
        return f"{name} added"
    target = outside / ("folder" if name == "events.before" else "letter.txt")
    if (folder / name).is_file():
        (folder / name).unlink()
    if not (folder / name).exists():
        (folder / name).symlink_to(target)
    return f"{name} links to {target}"


def refused_in_one_line(result: Result) -> bool:
    """Exit code 2, and one line for a person to read."""
    return (
        result.exit_code == 2
        and result.stderr.startswith("simfl: ")
        and (result.stderr.count("\n") == 1 and result.stdout == "")
    )


@pytest.mark.parametrize("number", range(CASES))
def test_a_damaged_run_folder(
    references: References, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line and exit code 2, or what the undamaged folder gives; foreign files stay."""
    rng, deed = random.Random(number), DEEDS[number % len(DEEDS)]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    state = "completed" if deed is federate else rng.choice(STATES)
    folder = copied(references.folders[state], tmp_path / "run")
    outside = tmp_path / "outside"
    (outside / "folder").mkdir(parents=True)
    for path in (outside / "letter.txt", outside / "folder" / "part-00000.parquet"):
        path.write_text("not simfl's")
    if rng.random() < 0.15:
        name, what = "", plant(folder, rng, outside)
    else:
        file = rng.choice(files_below(folder))
        name = str(file.relative_to(folder))
        other = references.others[state] / name
        damage = rng.choice(damages_of(file))
        if not other.exists() or damage.__name__ == "link_outside":
            other = outside / "letter.txt"
        what = damage(file, rng, other)
    foreign = (*FOREIGN, f"{name}/mine.txt")
    before = contents(outside) | {one: of for one, of in contents(folder).items() if one in foreign}

    result = deed(references, state, name)

    case = f"{state}, {deed.__name__}, {name}: {what}: {result.exit_code} {result.output}"
    error = result.exception
    if error is not None and not isinstance(error, SystemExit):
        raise AssertionError(case) from error
    assert result.exit_code == 0 or refused_in_one_line(result), case
    assert before.items() <= (contents(outside) | contents(folder)).items(), case
    shutil.rmtree(tmp_path)
