"""A run as a trace for Perfetto (ui.perfetto.dev) or chrome://tracing.

The format is Chrome's JSON trace format: edge servers are processes, machines are their tracks,
downloads, training, uploads and waits are slices, and accuracy, versions, queues and the levels of
batteries are counters.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pandas as pd

from simfl.common.files import replacing
from simfl.runs.runfolder import LoadedRun, RunFolderError, edge_servers

Event = dict[str, Any]

SLICES = {
    "download": "download",
    "compute": "training",
    "upload": "upload",
    "tail": "tail",
    "idle": "wait",
    "edge_aggregate": "aggregate",
    "cloud_aggregate": "aggregate",
    "network": "link",
}
"""Kinds of events with a duration -> names of their slices."""

COLOURS = {
    "download": "thread_state_runnable",
    "training": "thread_state_running",
    "upload": "thread_state_iowait",
    "tail": "thread_state_unknown",
    "wait": "thread_state_sleeping",
    "aggregate": "rail_response",
    "link": "rail_load",
}
"""Chrome's names of colours; Perfetto chooses its own by the slice's name."""

MOMENTS = ("select", "schedule", "late", "given_up", "departure")
"""Kinds shown as moments of the cloud or of their edge server."""

INTERRUPTIONS = ("unavailable", "crash", "battery_empty", "out_of_memory")
"""Kinds shown as moments of the machine that they happen to."""

CLOUD_PROCESS = 1
"""Process numbers begin with the cloud's; an edge server's is 2 + its number."""


def save_trace(run: LoadedRun, path: Path, levels: pd.DataFrame | None = None) -> Path:
    """Write the trace of a run, compressed if the name ends in ".gz".

    `levels` are those of batteries, if any: columns client, time_s, and level, 0 to 1. Raises
    `RunFolderError` if the run kept no events, or if the log names things that other tables lack.
    """
    _ = run.clients  # raises if the run has not ended
    if run.events.empty:
        raise RunFolderError(f"{run.path}: the run kept no events; run it with log.level: full")
    make = gzip.open if path.suffix == ".gz" else open
    with (
        replacing(path, f".partial{path.suffix}") as target,
        make(target, "wt", encoding="utf-8") as file,
    ):
        _write(run, levels, file)
    return path


def _write(run: LoadedRun, levels: pd.DataFrame | None, file: TextIO) -> None:
    """One event per line, so that a large run is never held in memory as one text."""
    file.write('{"displayTimeUnit":"ms","traceEvents":[\n')
    for index, event in enumerate(trace_events(run, levels)):
        file.write((",\n" if index else "") + json.dumps(event, separators=(",", ":")))
    file.write("\n]}\n")


def trace_events(run: LoadedRun, levels: pd.DataFrame | None = None) -> Iterator[Event]:
    """Every event of the trace; times are whole microseconds of simulated time."""
    places = _places(run)
    yield from _names(run, places)
    yield from _slices(run, places)
    yield from _moments(run, places)
    yield from _counters(run)
    if levels is not None:
        for client, time_s, level in levels[["client", "time_s", "level"]].itertuples(index=False):
            process, _ = places[f"client-{client}"]
            yield _count("level", process, time_s, level, f"battery of client {client}")


def _places(run: LoadedRun) -> dict[str, tuple[int, int]]:
    """Process and track of each machine; an edge server is the first track of its process."""
    edges = edge_servers(run)
    places = {"cloud": (CLOUD_PROCESS, 0)}
    places |= {f"edge-{edge}": (CLOUD_PROCESS + 1 + edge, 0) for edge in edges}
    for client, edge in zip(run.clients["client"], run.clients["edge"], strict=True):
        places[f"client-{client}"] = (CLOUD_PROCESS + 1 + edge, 1 + client)
    links = run.events.loc[run.events["kind"] == "network", "edge"].drop_duplicates()
    for edge in links:
        process = CLOUD_PROCESS if edge != edge else CLOUD_PROCESS + 1 + edge
        places[_link(edge)] = (process, 1 + len(run.clients))
    return {actor: (int(process), int(track)) for actor, (process, track) in places.items()}


def _link(edge: float) -> str:
    """The track of the messages between an edge server and the cloud; NaN: of a flat run."""
    return "network" if edge != edge else f"network-{edge:.0f}"


def _names(run: LoadedRun, places: dict[str, tuple[int, int]]) -> Iterator[Event]:
    devices = {
        f"client-{client}": f"client {client} ({device})"
        for client, device in zip(run.clients["client"], run.clients["device"], strict=True)
    }
    processes = {CLOUD_PROCESS: "cloud"}
    for actor, (process, track) in places.items():
        processes.setdefault(process, f"edge {process - CLOUD_PROCESS - 1}")
        label = devices.get(actor, actor.replace("-", " "))
        yield _about("thread_name", process, track, {"name": label})
        yield _about("thread_sort_index", process, track, {"sort_index": track})
    for process, label in processes.items():
        yield _about("process_name", process, 0, {"name": label})
        yield _about("process_sort_index", process, 0, {"sort_index": process})


def _about(name: str, process: int, track: int, content: Event) -> Event:
    return {"ph": "M", "name": name, "pid": process, "tid": track, "args": content}


def _slices(run: LoadedRun, places: dict[str, tuple[int, int]]) -> Iterator[Event]:
    events = run.events
    shown = events[events["kind"].isin(list(SLICES)) & (events["duration_s"] > 0)]
    columns = ("kind", "actor", "edge", "start_s", "time_s", "version", "energy_j", "bytes")
    beside = shown[["attempts", "lost_bytes", "cut_by"]].to_dict("records")
    free_us = dict.fromkeys(places, 0)
    for kind, who, edge, start_s, time_s, version, energy_j, size, message in zip(
        *(shown[column].tolist() for column in columns), beside, strict=True
    ):
        actor = _link(edge) if kind == "network" else who
        if actor not in places:
            raise RunFolderError(
                f"{run.path}: the event log names {actor!r}, which clients.parquet has not; the two"
                " are not of one run: run its scenario anew"
            )
        name, (process, track) = SLICES[kind], places[actor]
        # Perfetto drops a slice that begins within another and ends after it, even if due to
        # rounding.
        begin_us = max(_microseconds(start_s), free_us[actor])
        free_us[actor] = max(_microseconds(time_s), begin_us)
        facts: Event = {"energy_j": energy_j}
        if size:
            facts["bytes"] = size
        if kind in ("download", "upload"):
            facts |= _fate(message, arrived=bool(size))
        if version == version:  # not NaN: waiting belongs to no version
            facts["version"] = int(version)
        yield {
            "ph": "X",
            "name": name,
            "cat": kind,
            "pid": process,
            "tid": track,
            "ts": begin_us,
            "dur": free_us[actor] - begin_us,
            "cname": COLOURS[name],
            "args": facts,
        }


def _fate(message: Event, *, arrived: bool) -> Event:
    """What a message lost, whether it arrived after all, and what cut it short."""
    facts: Event = {} if arrived else {"arrived": False}
    if message["lost_bytes"] > 0:
        facts |= {"attempts": int(message["attempts"]), "lost_bytes": int(message["lost_bytes"])}
    if isinstance(message["cut_by"], str):
        facts["cut_by"] = message["cut_by"]
    return facts


def _moments(run: LoadedRun, places: dict[str, tuple[int, int]]) -> Iterator[Event]:
    shown = run.events[run.events["kind"].isin([*MOMENTS, *INTERRUPTIONS])]
    columns = ("kind", "actor", "edge", "time_s", "detail")
    for kind, actor, edge, time_s, detail in zip(
        *(shown[column].tolist() for column in columns), strict=True
    ):
        at_cloud = kind in ("schedule", "departure") or edge != edge
        process, track = (CLOUD_PROCESS if at_cloud else CLOUD_PROCESS + 1 + int(edge), 0)
        if kind in INTERRUPTIONS:
            process, track = places.get(actor, (CLOUD_PROCESS, 0))
        yield {
            "ph": "i",
            "s": "t",
            "name": kind,
            "cat": kind,
            "pid": process,
            "tid": track,
            "ts": _microseconds(time_s),
            "args": json.loads(detail) if isinstance(detail, str) else {},
        }


def _counters(run: LoadedRun) -> Iterator[Event]:
    rounds = run.rounds
    for column, name in (("accuracy", run.accuracy_name), ("version", "version")):
        known = rounds.dropna(subset=column)
        for time_s, value in zip(known["time_s"], known[column], strict=True):
            yield _count(name, CLOUD_PROCESS, time_s, float(value))
    schedule = run.details("schedule")
    if "queues" in schedule:
        known = schedule.dropna(subset="queues")
        for time_s, queues in zip(known["time_s"], known["queues"], strict=True):
            for edge, length in enumerate(queues):
                yield _count("queue", CLOUD_PROCESS + 1 + edge, time_s, float(length))


def _count(series: str, process: int, time_s: float, value: float, name: str = "") -> Event:
    """A counter takes the value `value`; `name` is empty if it has only this series."""
    return {
        "ph": "C",
        "name": name or series,
        "pid": process,
        "ts": _microseconds(time_s),
        "args": {series: value},
    }


def _microseconds(time_s: float) -> int:
    return round(1e6 * time_s)
