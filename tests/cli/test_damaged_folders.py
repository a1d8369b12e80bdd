"""Looking at folders that hold what no run leaves: one line with the folder's name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import simfl
from simfl.assembly.simulation import Options
from simfl.cli.app import app
from simfl.eventlog.kinds import SCHEMA
from tests.small import SEMI_ASYNCHRONOUS, small


def command(*arguments: object) -> Any:
    """What `simfl` does with these arguments, in this process."""
    return CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A completed run; it must not be changed."""
    scenario = small(model="linear", protocol=SEMI_ASYNCHRONOUS, stop={"versions": 2})
    return simfl.run(scenario, tmp_path_factory.mktemp("runs") / "run").path


def change_events(folder: Path, change: Callable[[pd.DataFrame], Any]) -> None:
    """The event log with other values in columns of the same types."""
    events = pd.read_parquet(folder / "events.parquet")
    change(events)
    pq.write_table(
        pa.Table.from_pandas(events, SCHEMA, preserve_index=False), folder / "events.parquet"
    )


def set_key(folder: Path, key: str, value: Any) -> None:
    """Another value in the manifest."""
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, key: value}))


def unknown_device(folder: Path) -> None:
    """A device that there is not."""
    change_events(
        folder, lambda events: events.replace({"actor": {"client-2": "x-9"}}, inplace=True)
    )


def broken_detail(folder: Path) -> None:
    """A detail that is no JSON."""

    def change(events: pd.DataFrame) -> None:
        events.loc[events["detail"].notna(), "detail"] = "{"

    change_events(folder, change)


def drop_column(folder: Path, table: str, column: str) -> None:
    """A table without a column, in the folder of a version that kept no digests of its files."""
    rows = pq.read_table(folder / f"{table}.parquet").drop_columns(column)
    pq.write_table(rows, folder / f"{table}.parquet")
    set_key(folder, "files", None)


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "unknown device": unknown_device,
    "detail that is no JSON": broken_detail,
    "log without kinds": lambda folder: drop_column(folder, "events", "kind"),
    "rounds without times": lambda folder: drop_column(folder, "rounds", "time_s"),
    "scenario of another shape": lambda folder: (folder / "scenario.yaml").write_text("data: 3\n"),
    "scenario of text": lambda folder: (folder / "scenario.yaml").write_text("- a\n"),
    "counts of text": lambda folder: set_key(folder, "counts", "many"),
    "joules of text": lambda folder: set_key(folder, "energy_j", {"a": 1}),
    "measures of numbers": lambda folder: set_key(folder, "measures", [1]),
    "empty log": lambda folder: (folder / "events.parquet").write_bytes(b""),
}
SEEN_BY = {
    "unknown device": ("report", "trace"),
    "detail that is no JSON": ("report", "trace"),
    "log without kinds": ("report", "trace"),
    "rounds without times": ("report", "compare"),
    "scenario of another shape": ("report", "trace"),
    "scenario of text": ("report", "trace", "compare"),
    "counts of text": ("report", "compare"),
    "joules of text": ("report",),
    "measures of numbers": ("report", "compare"),
    "empty log": ("report", "trace"),
}


@pytest.mark.parametrize(
    ("damage", "one"), [(d, one) for d, ones in SEEN_BY.items() for one in ones]
)
def test_values_that_no_run_leaves(sound: Path, tmp_path: Path, damage: str, one: str) -> None:
    """Exit code 2, one line, and no half page; an earlier page stays."""
    folder = tmp_path / "run"
    shutil.copytree(sound, folder)
    DAMAGES[damage](folder)
    (folder / "trace.json").write_text("earlier")

    result = command(one, folder, *([sound] if one == "compare" else []))

    assert result.exit_code == 2, (result.output, result.exception)
    assert result.stderr.startswith(f"simfl: {folder}") and result.stderr.count("\n") == 1
    assert result.stdout == ""
    assert (folder / "trace.json").read_text() == "earlier"
    assert not list(folder.glob("*.partial*"))


@pytest.mark.parametrize("one", ["report", "trace", "compare"])
@pytest.mark.parametrize("versions", [0, 1])
def test_a_run_that_goes_on(tmp_path: Path, one: str, versions: int) -> None:
    """While it runs, or ended before its first version: the available content, or one line."""
    seen: list[Any] = []

    def look(progress: Any) -> None:
        if progress.version == versions:
            seen.append(command(one, tmp_path / "run"))

    options = Options(watch=look)
    if versions:
        simfl.run(small(model="linear", stop={"versions": 1}), tmp_path / "run", options)
    else:
        scenario = small(model="linear", stop={"time_s": 1e-3, "versions": None})
        simfl.run(scenario, tmp_path / "run")
        seen.append(command(one, tmp_path / "run"))

    assert len(seen) == 1
    assert seen[0].exit_code in (0, 2), (seen[0].output, seen[0].exception)
    assert seen[0].stderr.count("\n") == (seen[0].exit_code == 2)


@pytest.mark.parametrize("name", ["report.html", "trace.json", "overview.png"])
def test_links_in_a_run_folder_are_not_followed(sound: Path, tmp_path: Path, name: str) -> None:
    """A page that is written anew replaces the link, not what it leads to."""
    folder, letter = tmp_path / "run", tmp_path / "letter.txt"
    shutil.copytree(sound, folder)
    letter.write_text("dear")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(letter)

    if name == "overview.png":
        from simfl.pictures.overview import save_overview

        save_overview(simfl.load_run(folder), folder / name)
    else:
        assert command(name.partition(".")[0], folder).exit_code == 0

    assert letter.read_text() == "dear"
    assert (folder / name).stat().st_size > 1000


def test_a_trace_goes_to_what_is_no_file(sound: Path) -> None:
    """`--out /dev/null` is written to, not replaced."""
    result = command("trace", sound, "--out", "/dev/null")

    assert result.exit_code == 0
    assert Path("/dev/null").is_char_device()
