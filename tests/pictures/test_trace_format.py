"""Traces keep to the format that Perfetto and chrome://tracing read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import simfl
from simfl.cli.app import app
from simfl.runs.battery_levels import battery_levels
from simfl.scenario.scenario import Scenario
from simfl.scenario.shipped import shipped_scenarios
from tests.pictures.trace_rules import violations
from tests.small import small

FAULTS = {"clients": {"works": {"mean_s": 0.2}, "broken": {"mean_s": 0.05}}}


def quickstart() -> Scenario:
    """The quick start, cut short, with a small network."""
    small = ["stop.versions=8", "model.hidden=[32]"]
    return Scenario.from_yaml(shipped_scenarios()["quickstart"], small)


def troubled() -> Scenario:
    """Crashes, and batteries."""
    population = {"faults": FAULTS, "batteries": {"initial": [0.1, 1.0]}}
    return small(population=population, stop={"versions": 8})


@pytest.mark.parametrize("scenario", [quickstart, troubled])
def test_the_trace_keeps_to_the_format(tmp_path: Path, scenario: Callable[[], Scenario]) -> None:
    """Slices nest on every track, times are microseconds, counters numbers, and all is named."""
    run = simfl.run(scenario(), tmp_path / "run")

    result = CliRunner().invoke(app, ["trace", str(run.path)])

    assert result.exit_code == 0, result.output
    text = (run.path / "trace.json").read_text(encoding="utf-8")
    assert violations(text) == []
    phases = {one["ph"] for one in json.loads(text)["traceEvents"]}
    timed = [one for one in json.loads(text)["traceEvents"] if one["ph"] != "M"]
    assert {type(one["ts"]) for one in timed} == {int}
    assert phases == {"X", "i", "C", "M"}


def test_the_levels_of_batteries_are_counters(tmp_path: Path) -> None:
    """One per client with a battery, in its edge server's process, equal to `battery_levels`."""
    run = simfl.run(troubled(), tmp_path / "run")

    CliRunner().invoke(app, ["trace", str(run.path)])

    levels, drawn = battery_levels(run), {}
    for one in json.loads((run.path / "trace.json").read_text())["traceEvents"]:
        if one["ph"] == "C" and one["name"].startswith("battery of client "):
            place = (int(one["name"].split()[-1]), one["pid"])
            drawn.setdefault(place, []).append((one["ts"] / 1e6, one["args"]["level"]))
    edges = run.clients.set_index("client")["edge"]
    assert set(drawn) == {(n, 2 + edges[n]) for n in levels["client"].unique()} != set()
    for (client, _), points in drawn.items():
        own = levels[levels["client"] == client]
        assert [level for _, level in points] == own["level"].tolist()
        assert [time_s for time_s, _ in points] == pytest.approx(own["time_s"].tolist(), abs=1e-6)


def _slice(begin: float, length: float) -> dict[str, Any]:
    return {"ph": "X", "name": "a", "cat": "a", "pid": 1, "tid": 0, "ts": begin, "dur": length}


@pytest.mark.parametrize(
    "events",
    [
        [_slice(0, 2), _slice(1, 2)],
        [{**_slice(0, 2), "ts": -1}],
        [{**_slice(0, 2), "dur": "2"}],
        [{**_slice(0, 2), "tid": 1}],
        [{"ph": "C", "name": "a", "pid": 1, "ts": 0, "args": {"a": None}}],
        [{"ph": "M", "name": "process_label", "pid": 1, "tid": 0, "args": {"name": "a"}}],
        [{"ph": "M", "name": "thread_name", "pid": 1, "tid": 0, "args": {"name": "again"}}],
    ],
)
def test_the_rules_find_what_is_wrong(events: list[dict[str, Any]]) -> None:
    """Each of these breaks one; nested slices of a named track break none."""
    names = [
        {"ph": "M", "name": name, "pid": 1, "tid": 0, "args": {"name": "one"}}
        for name in ("process_name", "thread_name")
    ]
    good = [*names, _slice(10, 5), _slice(10, 2), _slice(12, 3), _slice(15, 1)]

    def told(more: list[dict[str, Any]]) -> list[str]:
        return violations(json.dumps({"displayTimeUnit": "ms", "traceEvents": [*good, *more]}))

    assert told([]) == []
    assert told(events) != []
