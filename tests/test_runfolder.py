"""Reading a run folder back: complete, under way, or no run at all."""

from __future__ import annotations

import errno
import json
import math
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import simfl
from simfl.assembly.assemble import assemble
from simfl.assembly.simulation import Options
from simfl.eventlog import parquet_parts
from simfl.eventlog.kinds import FORMAT_VERSION, KINDS, SCHEMA, UNITS
from simfl.eventlog.parquet_parts import count_rows, read_parquet
from simfl.pictures.report.of_run import report_run
from simfl.protocols.run import Run
from simfl.provenance.journal import Journal
from simfl.runs.runfolder import (
    LoadedRun,
    RunFolderError,
    load_run,
    read_manifest,
    write_manifest,
    write_table,
)
from simfl.scenario.plugins import import_class
from simfl.scenario.yaml_source.source import read_source
from tests.small import SEMI_ASYNCHRONOUS, small


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    """A completed run; its folder must not be changed."""
    scenario = small(
        model="linear", protocol=SEMI_ASYNCHRONOUS, stop={"versions": 5}, evaluate={"every": 2}
    )
    return simfl.run(scenario, tmp_path_factory.mktemp("runs") / "finished", Options(device="cpu"))


def test_tables_of_a_complete_run(finished: LoadedRun) -> None:
    """Every table has its rows, and they agree with the manifest and with one another."""
    run = load_run(finished.path)

    assert run.manifest["status"] == "completed"
    assert run.manifest["reason"] == "versions reached 5"
    assert list(run.events.columns) == SCHEMA.names == list(UNITS)
    assert run.events["seq"].tolist() == list(range(run.manifest["counts"]["events"]))
    assert run.events["time_s"].is_monotonic_increasing
    assert set(run.events["kind"]) <= set(KINDS)
    assert run.events["energy_j"].sum() == pytest.approx(run.manifest["energy_j"])
    assert run.rounds["version"].tolist() == [1, 2, 3, 4, 5]
    assert run.rounds["accuracy"].notna().tolist() == [False, True, False, True, True]
    assert run.evaluations["version"].tolist() == [2, 4, 5]
    assert run.clients["client"].tolist() == list(range(8))
    own = run.events[run.events["client"].notna()].groupby("client")["energy_j"].sum()
    assert run.clients["energy_j"].tolist() == pytest.approx(own.tolist())


RANDOM = """
from torch import nn

class Random(nn.Sequential):
    def __init__(self, input_shape, outputs):
        super().__init__(nn.Flatten(), nn.RReLU(), nn.Linear(64, outputs), nn.PReLU())
"""


def test_the_manifest_says_how_jobs_are_trained(finished: LoadedRun, tmp_path: Path) -> None:
    """Together; or one by one, and which layers are in the way."""
    (tmp_path / "random_slopes.py").write_text(RANDOM)
    own = f"{tmp_path / 'random_slopes.py'}:Random"
    scenario = small(model={"name": own}, stop={"versions": 1})

    slow = simfl.run(scenario, tmp_path / "run", Options(device="cpu"))

    assert finished.manifest["numeric_platform"]["kernel_family"] == "stacked"
    assert finished.manifest["not_stacked_because"] is None
    assert slow.manifest["numeric_platform"]["kernel_family"] == "loop"
    assert slow.manifest["not_stacked_because"] == (
        "1 (RReLU) has no batched form; 3 (PReLU) has no batched form"
    )
    together, alone = (run.manifest["trained_by"] for run in (finished, slow))
    assert [row["form"] for row in together[:2]] == ["stacked", "by hand"]
    assert [row["what"] for row in together] == ["jobs", "gradients", "products"]
    assert alone[0] == {
        "what": "jobs", "form": "loop", "why": slow.manifest["not_stacked_because"]
    }  # fmt: skip
    page = report_run(slow, tmp_path / "report.html").read_text("utf-8")
    assert re.search(
        r"<td[^>]*>loop</td><td[^>]*>1 \(RReLU\) has no batched form; 3 \(PReLU\)", page
    )


def test_the_scenario_comes_with_every_default(finished: LoadedRun) -> None:
    """What was run, as plain values."""
    assert finished.scenario["population"]["clients"] == 8
    assert finished.scenario["decisions"]["estimator"]["name"] == "nig"


def test_path_may_be_text(finished: LoadedRun) -> None:
    """`load_run` takes a path or its text."""
    assert load_run(str(finished.path)).manifest == finished.manifest


def test_tables_are_read_once(finished: LoadedRun) -> None:
    """A table is the same object however often it is asked for."""
    assert finished.events is finished.events


def test_details_are_typed_columns(finished: LoadedRun) -> None:
    """The columns that a kind has, and the keys of its `detail`; not those of other kinds."""
    compute, schedule = finished.details("compute"), finished.details("schedule")
    upload = finished.details("upload")

    assert len(compute) == (finished.events["kind"] == "compute").sum()
    assert not {"detail", "attempts", "lost_bytes"} & set(compute)
    assert pd.api.types.is_float_dtype(compute["dynamic_j"])
    parts_j = compute["dynamic_j"] + compute["static_j"] + compute["tail_j"]
    assert parts_j.to_numpy() == pytest.approx(compute["active_j"].to_numpy())
    assert (compute["active_j"] <= compute["energy_j"]).all()
    assert (compute["cycles"] > 0).all()
    arrived = upload[upload["cut_by"].isna()]
    assert (arrived["attempts"] == 1).all() and (arrived["lost_bytes"] == 0).all()
    assert (upload["active_j"] <= upload["energy_j"]).all()
    assert not {"detail", "cycles", "dynamic_j", "frequency_hz"} & set(upload)
    assert schedule["idle"].map(len).min() >= 1
    assert not {"active_j", "cut_by", "cycles", "detail"} & set(schedule)


@pytest.mark.parametrize("actor", ["client-2", "edge-1", "cloud"])
def test_a_timeline_has_no_gap(finished: LoadedRun, actor: str) -> None:
    """From time 0 to the end, one state after the other, with the device's joules."""
    line = finished.timeline(actor)

    assert line["start_s"].iloc[0] == 0
    assert line["time_s"].iloc[-1] == pytest.approx(finished.manifest["horizon_s"])
    assert line["start_s"].iloc[1:].to_numpy() == pytest.approx(line["time_s"].iloc[:-1].to_numpy())
    by_state = finished.energy_by_state().loc[actor]
    for state, joules in line.groupby("kind")["energy_j"].sum().items():
        assert by_state[state] == pytest.approx(joules)


def test_energy_by_state_is_all_there_is(finished: LoadedRun) -> None:
    """Devices and states add up to the run's energy, and clients to their own table."""
    table = finished.energy_by_state()

    assert table.to_numpy().sum() == pytest.approx(finished.manifest["energy_j"])
    compute = table.loc[[f"client-{one}" for one in finished.clients["client"]], "compute"]
    assert compute.to_numpy() == pytest.approx(finished.clients["compute_j"].to_numpy())


def test_a_timeline_of_nobody(finished: LoadedRun) -> None:
    """The error says what devices are called."""
    with pytest.raises(ValueError, match=r"^'client-99' is not in the log"):
        finished.timeline("client-99")


def test_details_without_a_row(finished: LoadedRun) -> None:
    """A kind that did not happen has no rows."""
    synchronous = small(model="linear", protocol="synchronous", stop={"versions": 1})
    run = simfl.run(synchronous, finished.path.with_name("flat"), Options(device="cpu"))

    assert run.details("schedule").empty


def test_details_of_an_unknown_kind(finished: LoadedRun) -> None:
    """A misspelt kind is an error, not an empty table."""
    with pytest.raises(ValueError, match="unknown event kind 'computing'; kinds: download"):
        finished.details("computing")


RUNNING = {
    "format_version": FORMAT_VERSION,
    "status": "running",
    "digest": "0" * 32,
    "numeric_platform": {},
}
"""What the manifest of a run that is going on says at least."""


def with_rounds(folder: Path) -> LoadedRun:
    """A run whose rounds table is known."""
    write_manifest(folder, RUNNING)
    columns = {
        "version": [1, 2, 3, 4],
        "time_s": [1.5, 3.0, 4.5, 6.0],
        "energy_j": [10.0, 20.0, 30.0, 40.0],
        "bytes": [100, 200, 300, 400],
        "accuracy": [0.2, None, 0.6, 0.5],
        "loss": [2.0, None, 0.9, 1.1],
    }
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    write_table(folder, "rounds", rows)
    return load_run(folder)


def test_cost_of_a_target(tmp_path: Path) -> None:
    """The first version that meets the target counts; versions not evaluated meet none."""
    run = with_rounds(tmp_path)

    assert run.time_to(accuracy=0.2) == 1.5
    assert run.time_to(accuracy=0.5) == 4.5
    assert run.energy_to(accuracy=0.5) == 30.0
    assert run.bytes_to(loss=1.0) == 300
    assert run.time_to(loss=1.1) == 4.5
    assert math.isnan(run.time_to(accuracy=0.9))
    assert math.isnan(run.bytes_to(loss=0.1))


@pytest.mark.parametrize("target", [{}, {"accuracy": 0.5, "loss": 1.0}])
def test_cost_of_one_target(tmp_path: Path, target: dict[str, float]) -> None:
    """Exactly one target is needed."""
    run = with_rounds(tmp_path)

    with pytest.raises(ValueError, match=r"give one target: accuracy .* or loss"):
        run.time_to(**target)


def under_way(folder: Path) -> Run:
    """A run that was killed after some of its events were written."""
    scenario = small(model="linear", log={"rows_per_segment": 10})
    simulation = assemble(scenario, Options(device="cpu"))
    folder.mkdir()
    write_manifest(folder, RUNNING)
    run = simulation.make_run(folder, Journal())
    run.note_start(None, None)
    process = run.env.process(simulation.protocol.process(run))
    while len(run.publications.rounds) < 2:
        run.env.step()
    assert process.is_alive
    return run


def test_run_under_way(tmp_path: Path) -> None:
    """Complete segments are read; a half-written one is ignored."""
    run = under_way(tmp_path / "killed")
    segments = sorted((tmp_path / "killed/events").glob("part-*.parquet"))
    (tmp_path / "killed/events/part-99999.partial").write_bytes(b"PAR1 cut off")

    loaded = load_run(tmp_path / "killed")

    assert len(segments) >= 1
    assert not (tmp_path / "killed/events.parquet").exists()
    assert loaded.manifest["status"] == "running"
    assert len(loaded.events) == run.log.rows_written >= 10
    assert loaded.events["seq"].tolist() == list(range(len(loaded.events)))
    assert list(loaded.events.columns) == SCHEMA.names
    assert len(loaded.details("compute")) > 0
    said = (
        r"rounds\.parquet: not there; .*status is running; if it was killed, `simfl run ... --res"
    )
    with pytest.raises(RunFolderError, match=said):
        _ = loaded.rounds


def test_run_without_an_event(tmp_path: Path) -> None:
    """A run that has just begun has an empty log with the right columns."""
    write_manifest(tmp_path, RUNNING)

    events = load_run(tmp_path).events

    assert events.empty
    assert list(events.columns) == SCHEMA.names


def test_run_without_a_log(tmp_path: Path) -> None:
    """`log: rounds` keeps no events; the other tables are as ever."""
    scenario = small(model="linear", log={"level": "rounds"})

    run = simfl.run(scenario, tmp_path / "run", Options(device="cpu"))

    assert run.events.empty
    assert not (tmp_path / "run/events.parquet").exists()
    assert run.rounds["version"].tolist() == [1, 2, 3]
    assert run.clients["energy_j"].min() > 0


def test_running_and_complete_events_are_alike(finished: LoadedRun, tmp_path: Path) -> None:
    """Segments and the merged file have the same columns of the same types."""
    under_way(tmp_path / "killed")

    segments = load_run(tmp_path / "killed").events

    assert segments.dtypes.to_dict() == finished.events.dtypes.to_dict()


def test_no_run_folder(tmp_path: Path) -> None:
    """Neither a missing folder nor one without a manifest is a run."""
    for folder in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(RunFolderError, match=r"no run folder \(it has no manifest\.json\)"):
            load_run(folder)


def test_file_is_no_run_folder(tmp_path: Path) -> None:
    """A file is no run either."""
    (tmp_path / "events.parquet").write_bytes(b"")

    with pytest.raises(RunFolderError, match="no run folder"):
        load_run(tmp_path / "events.parquet")


@pytest.mark.parametrize("content", ['{"status": "comp', "[1, 2]", "\udcff"])
def test_damaged_manifest(tmp_path: Path, content: str) -> None:
    """A manifest that is no JSON object is told with its path."""
    (tmp_path / "manifest.json").write_bytes(content.encode(errors="surrogateescape"))

    with pytest.raises(RunFolderError, match=r"manifest\.json: not readable"):
        load_run(tmp_path)


@pytest.mark.parametrize("found", [None, 1, 2, 4])
def test_a_run_in_another_format(finished: LoadedRun, tmp_path: Path, found: int | None) -> None:
    """It is refused in a line that says what to do, read or resumed; and may be run anew."""
    folder = tmp_path / "run"
    shutil.copytree(finished.path, folder)
    manifest = {**finished.manifest, "status": "interrupted", "format_version": found}
    del manifest["client_energy_j"]  # which the other format may not have
    write_manifest(folder, {key: value for key, value in manifest.items() if value is not None})
    line = f"^{folder}: a run in format {found or 1}, .* reads format 3: .*--overwrite"
    scenario = folder / "scenario.yaml"

    with pytest.raises(RunFolderError, match=line):
        load_run(folder)
    with pytest.raises(RunFolderError, match=line):
        simfl.run(scenario, folder, Options(device="cpu"), resume=True)
    again = simfl.run(scenario, folder, Options(device="cpu"), overwrite=True)

    assert again.manifest["fingerprint"] == finished.manifest["fingerprint"]


def test_damaged_table(finished: LoadedRun, tmp_path: Path) -> None:
    """A table that is no Parquet file is told with its path."""
    folder = tmp_path / "copy"
    shutil.copytree(finished.path, folder)
    (folder / "rounds.parquet").write_bytes(b"PAR1 no more")

    with pytest.raises(RunFolderError, match=r"rounds\.parquet: damaged, or of another run"):
        _ = load_run(folder).rounds


def test_manifest_is_never_half_written(tmp_path: Path) -> None:
    """The new manifest takes the old one's place, and nothing is left beside it."""
    write_manifest(tmp_path, {"status": "running"})
    write_manifest(tmp_path, {"status": "completed"})

    assert json.loads((tmp_path / "manifest.json").read_text())["status"] == "completed"
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


def test_too_many_open_files_are_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and parts that found no handle were called unreadable, or no module."""

    def refuse(*arguments: Any, **named: Any) -> Any:
        raise OSError(errno.EMFILE, "Too many open files", "it")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    monkeypatch.setattr(parquet_parts.pq, "ParquetFile", refuse)
    monkeypatch.setattr(parquet_parts.pq, "read_metadata", refuse)
    read = (read_parquet, count_rows, read_manifest, read_source)
    own = partial(import_class, "own.py:Own")
    for one in (*read, own):
        with pytest.raises(OSError, match="Too many open files"):
            one(tmp_path)
