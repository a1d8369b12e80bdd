"""The trace of a run: what Perfetto is shown is what the log holds."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import simfl
from simfl.pictures.report.of_run import what_ran
from simfl.pictures.trace import CLOUD_PROCESS, SLICES, save_trace
from simfl.runs.runfolder import LoadedRun, RunFolderError
from tests.small import SEMI_ASYNCHRONOUS, small


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    """A small run with edge servers and queues."""
    scenario = small(
        protocol=SEMI_ASYNCHRONOUS, stop={"versions": 4}, decisions={"scheduling": "fedcure"}
    )
    return simfl.run(scenario, tmp_path_factory.mktemp("run") / "out")


@pytest.fixture(scope="module")
def trace(run: LoadedRun, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Its trace, read back."""
    path = save_trace(run, tmp_path_factory.mktemp("trace") / "trace.json")
    content = json.loads(path.read_text())
    assert content["displayTimeUnit"] == "ms"
    return list(content["traceEvents"])


def test_slices_are_the_logs_events(run: LoadedRun, trace: list[dict[str, Any]]) -> None:
    """As many as there are events that take time, with their lengths in microseconds."""
    events = run.events[run.events["kind"].isin(list(SLICES)) & (run.events["duration_s"] > 0)]
    slices = [one for one in trace if one["ph"] == "X"]

    assert Counter(one["cat"] for one in slices) == Counter(events["kind"])
    total_s = sum(one["dur"] for one in slices) / 1e6
    assert total_s == pytest.approx(events["duration_s"].sum(), abs=1e-4)
    assert {one["name"] for one in slices} >= {"training", "upload", "wait", "aggregate"}


def test_links_and_lost_messages_are_shown(tmp_path: Path) -> None:
    """All joules of the log are in slices; a message that did not arrive says so, and why."""
    loss = {"probability": 0.3, "attempts_max": 2, "timeout_s": 0.01}
    scenario = small(
        protocol=SEMI_ASYNCHRONOUS,
        population={"message_loss": loss},
        algorithm="none",
        stop={"versions": 8},
    )
    run = simfl.run(scenario, tmp_path / "run")
    events = run.events[run.events["duration_s"] > 0]
    messages = events[events["kind"].isin(["download", "upload"])]

    content = json.loads(save_trace(run, tmp_path / "trace.json").read_text())["traceEvents"]

    slices = [one for one in content if one["ph"] == "X"]
    joules = sum(one["args"]["energy_j"] for one in slices)
    assert joules == pytest.approx(run.manifest["energy_j"], rel=1e-9)
    links = [one for one in slices if one["name"] == "link"]
    assert len(links) == (events["kind"] == "network").sum() > 0
    tracks = {
        (one["pid"], one["tid"]): one["args"]["name"]
        for one in content
        if one["name"] == "thread_name"
    }
    assert {tracks[one["pid"], one["tid"]] for one in links} == {"network 0", "network 1"}
    lost = [one for one in slices if one["args"].get("arrived") is False]
    assert len(lost) == (messages["bytes"] == 0).sum() > 0
    again = [one["args"] for one in slices if "lost_bytes" in one["args"]]
    assert sum(one["lost_bytes"] for one in again) == messages["lost_bytes"].sum() > 0


def test_edges_are_processes_and_devices_their_tracks(
    run: LoadedRun, trace: list[dict[str, Any]]
) -> None:
    """Each client under its edge server, named with its device."""
    processes = {one["pid"]: one["args"]["name"] for one in trace if one["name"] == "process_name"}
    tracks = {
        one["args"]["name"]: processes[one["pid"]] for one in trace if one["name"] == "thread_name"
    }

    assert set(processes.values()) == {"cloud", "edge 0", "edge 1"}
    for client in run.clients.itertuples():
        assert tracks[f"client {client.client} ({client.device})"] == f"edge {client.edge}"


def test_an_edge_server_without_clients_is_a_process_of_its_own(tmp_path: Path) -> None:
    """`nearest` gives it none; it waits, and the log and the clients' table are of one run."""
    scenario = small(
        population={"edges": 6},
        protocol={"name": "hierarchical", "edge_rounds": 1},
        decisions={"association": "nearest"},
        stop={"versions": 1},
    )
    run = simfl.run(scenario, tmp_path / "run")

    content = json.loads(save_trace(run, tmp_path / "t.json").read_text())["traceEvents"]

    alone = set(range(6)) - set(run.clients["edge"])
    assert alone
    processes = {one["args"]["name"] for one in content if one["name"] == "process_name"}
    assert processes == {"cloud", *(f"edge {edge}" for edge in range(6))}
    waits = [one for one in content if one["name"] == "wait" and one["tid"] == 0]
    assert alone <= {one["pid"] - CLOUD_PROCESS - 1 for one in waits}
    assert ("clients, edge servers", "8, 6") in what_ran(run)


def test_counters(run: LoadedRun, trace: list[dict[str, Any]]) -> None:
    """Accuracy over time, and each edge server's queue."""
    accuracy = [
        (one["ts"], one["args"]["accuracy"])
        for one in trace
        if one["ph"] == "C" and one["name"] == "accuracy"
    ]
    rounds = run.rounds.dropna(subset="accuracy")

    assert [time_us for time_us, _ in accuracy] == (rounds["time_s"] * 1e6).round().tolist()
    assert [value for _, value in accuracy] == rounds["accuracy"].tolist()
    queues = [one for one in trace if one["name"] == "queue"]
    assert {one["pid"] for one in queues} == {CLOUD_PROCESS + 1, CLOUD_PROCESS + 2}
    logged = run.details("schedule")["queues"].dropna()
    assert len(queues) == 2 * len(logged)


def test_a_compressed_trace(run: LoadedRun, tmp_path: Path) -> None:
    """The same, for large runs."""
    plain = save_trace(run, tmp_path / "trace.json").read_bytes()

    assert gzip.decompress(save_trace(run, tmp_path / "trace.json.gz").read_bytes()) == plain


def test_a_flat_run_and_one_without_events(tmp_path: Path) -> None:
    """A flat protocol's clients stand under their home edges; without events there is no trace."""
    flat = simfl.run(small(stop={"versions": 1}), tmp_path / "flat")
    silent = simfl.run(small(stop={"versions": 1}, log={"level": "rounds"}), tmp_path / "silent")

    assert json.loads(save_trace(flat, tmp_path / "t.json").read_text())["traceEvents"]
    with pytest.raises(RunFolderError, match="kept no events"):
        save_trace(silent, tmp_path / "u.json")


def test_a_run_that_has_not_got_to_its_first_events_is_no_silent_one(tmp_path: Path) -> None:
    """It lacks its clients' table, too, and is told by its status."""
    begun = simfl.run(small(stop={"versions": 1}), tmp_path / "begun").path
    for name in ("events.parquet", "clients.parquet"):
        (begun / name).unlink()
    manifest = json.loads((begun / "manifest.json").read_text())
    (begun / "manifest.json").write_text(json.dumps({**manifest, "status": "running"}))

    with pytest.raises(RunFolderError, match=r"clients\.parquet: not there; the run's status is"):
        save_trace(simfl.load_run(begun), tmp_path / "t.json")


def test_mishaps_stand_on_the_track_of_their_machine(tmp_path: Path) -> None:
    """Clients that crash: as many moments as the log has, each at its own client; the report counts
    them."""
    outages = {"works": {"mean_s": 0.2}, "broken": {"mean_s": 0.05}}
    scenario = small(population={"faults": {"clients": outages}}, stop={"versions": 30})
    run = simfl.run(scenario, tmp_path / "run")

    content = json.loads(save_trace(run, tmp_path / "t.json").read_text())["traceEvents"]

    tracks = {
        (one["pid"], one["tid"]): one["args"]["name"]
        for one in content
        if one["name"] == "thread_name"
    }
    moments = [tracks[one["pid"], one["tid"]] for one in content if one["name"] == "crash"]
    crashes = run.events.query("kind == 'crash'")
    assert len(crashes) > 0
    assert Counter(name.split()[1] for name in moments) == Counter(
        crashes["actor"].str.removeprefix("client-")
    )
    assert ("crashes", str(len(crashes))) in what_ran(run)
