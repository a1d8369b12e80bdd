"""Event logs of one checkout against those of another, column by column.

    python -m benchmarks.same_events freeze FOLDER [--mixes 300] [--versions 5] [--only NAME]
    python -m benchmarks.same_events compare FOLDER FOLDER [--mixes]

`freeze` runs every shipped scenario, and random mixes of populations, faults and protocols, and
keeps what `simfl.load_run` reads of each: all columns and details by kind of event, the rounds and
the clients. `compare` says where two such folders differ: numbers beyond a relative 1e-12, all else
at all. It is how a change of the engine shows what it changes; nothing in a test suite runs it.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, given, settings

import simfl
from tests.protocols.test_fault_mixes import MIXES
from tests.small import small

MOST_S = 240
"""Wall seconds for one scenario."""
TIMING = {"name": "none", "local": {"epochs": 1, "batch_size": 16}}
DEFAULTS = {"attempts": 1, "lost_bytes": 0, "unmet_j": 0.0, "tail_j": 0.0, "query": False}
"""What a detail says by leaving it out."""
NUMBERS = (int, float, np.number)
Tables = dict[str, pd.DataFrame]


def scenarios(root: Path, versions: int) -> Iterator[tuple[str, Any]]:
    """Every shipped scenario that one can run: name, and what makes it."""
    for path in sorted(root.rglob("*.yaml")):
        if "studies" not in path.parts:
            name = str(path.relative_to(root).with_suffix(""))
            yield name, lambda path=path: shortened(path, versions)


def shortened(path: Path, versions: int) -> simfl.Scenario:
    """A scenario with a limit of versions, where it has none that is lower."""
    scenario = simfl.Scenario.from_yaml(path)
    limit = min(scenario.stop.versions or versions, versions)
    return simfl.Scenario.from_yaml(path, [f"stop.versions={limit}"])


def mixes(count: int) -> list[dict[str, Any]]:
    """Random mixes, the same ones each time."""
    drawn: list[dict[str, Any]] = []

    @given(mix=MIXES)
    @settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def draw(mix: dict[str, Any]) -> None:
        drawn.append(mix)

    draw()
    return drawn


def tables_of(folder: Path) -> Tables:
    """What can be read of a run: one table per kind of event, and the run's own."""
    run = simfl.load_run(folder)
    found = {
        kind: run.details(kind).drop(columns=["seq"]) for kind in sorted(set(run.events["kind"]))
    }
    found["rounds"], found["clients"] = run.rounds, run.clients
    kept = ("status", "reason", "horizon_s", "energy_j", "bytes", "counts", "invariants")
    manifest = {key: json.dumps(run.manifest.get(key)) for key in kept}
    found["manifest"] = pd.DataFrame([manifest])
    return found


def freeze(out: Path, versions: int, count: int, only: str | None) -> None:
    """Run everything and keep its tables."""
    out.mkdir(parents=True, exist_ok=True)
    root = Path(simfl.__file__).parent.parent / "scenarios"
    makers = list(scenarios(root, versions)) if count >= 0 else []
    drawn_path = out / "mixes.json"
    if count > 0 and not drawn_path.exists():
        drawn_path.write_text(json.dumps(mixes(count)))
    drawn = json.loads(drawn_path.read_text()) if drawn_path.exists() else []
    stop = {"versions": 8, "time_s": 1.0}
    makers += [
        (f"mix/{n:04d}", lambda mix=mix: small(algorithm=TIMING, stop=stop, **mix))
        for n, mix in enumerate(drawn)
    ]
    for name, make in makers:
        target = out / f"{name.replace('/', '__')}.pickle"
        if (only and only not in name) or target.exists():
            continue
        begun, error = time.monotonic(), None
        with tempfile.TemporaryDirectory() as folder:
            signal.alarm(MOST_S)
            try:
                simfl.run(make(), Path(folder) / "run")
            except Exception as raised:  # noqa: BLE001 - what it raises is part of the comparison
                error = f"{type(raised).__name__}: {raised}"
            signal.alarm(0)
            try:
                tables = tables_of(Path(folder) / "run")
            except Exception as raised:  # noqa: BLE001 - what it raises is part of the comparison
                tables, error = {}, error or f"{type(raised).__name__}: {raised}"
        target.write_bytes(pickle.dumps((tables, error)))
        print(f"{name}: {time.monotonic() - begun:.1f} s {(error or '')[:150]}", flush=True)


def difference(left: Tables, right: Tables) -> list[str]:
    """Where two runs differ, one line per table and column."""
    found = [f"no {kind} in one of them" for kind in sorted(set(left) ^ set(right))]
    for kind in sorted(set(left) & set(right)):
        found += [f"{kind}: {line}" for line in table_difference(left[kind], right[kind])]
    return found


def table_difference(one: pd.DataFrame, two: pd.DataFrame) -> list[str]:
    """Where two tables differ, one line per column."""
    if len(one) != len(two):
        return [f"{len(one)} and {len(two)} rows"]
    one, two = (canonical(said(table)) for table in (one, two))
    found = []
    for column in sorted(set(one) | set(two)):
        values = [
            table[column] if column in table else pd.Series([None] * len(table))
            for table in (one, two)
        ]
        if column in DEFAULTS:
            values = [each.fillna(DEFAULTS[column]) for each in values]
        pairs = zip(*values, strict=True)
        scale = two["time_s"] if "time_s" in two else np.zeros(len(two))
        same = [equal(*pair, at) for pair, at in zip(pairs, scale, strict=True)]
        wrong = np.flatnonzero(~np.array(same, dtype=bool))
        if wrong.size:
            first = wrong[0]
            pair = f"{values[0].iloc[first]!r} and {values[1].iloc[first]!r}"
            at = {key: one[key].iloc[first] for key in ("actor", "time_s") if key in one}
            found.append(f"{column}: {wrong.size} of {len(one)} differ, first {pair} {at}"[:300])
    return found


def said(table: pd.DataFrame) -> pd.DataFrame:
    """The same in today's columns: format 1 said `cut` of what the end of the run broke off."""
    if "cut" not in table:
        return table
    return table.assign(cut_by=table["cut"].map({True: "end"})).drop(columns="cut")


def canonical(table: pd.DataFrame) -> pd.DataFrame:
    """Rows in an order that does not hang on last bits."""
    if "actor" not in table:
        return table.reset_index(drop=True)
    keys = pd.DataFrame(
        {"actor": table["actor"], "start": table["start_s"].round(9), "time": table["time_s"]}
    )
    return table.loc[keys.sort_values(["actor", "start", "time"], kind="stable").index].reset_index(
        drop=True
    )


def equal(left: Any, right: Any, time_s: float) -> bool:
    """Whether two cells say the same: numbers to 1e-12 of their size or of the time by then."""
    if missing(left) or missing(right):
        return missing(left) and missing(right)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(
            equal(*pair, time_s) for pair in zip(left, right, strict=True)
        )
    if isinstance(left, NUMBERS) and isinstance(right, NUMBERS):
        return abs(float(left) - float(right)) <= 1e-12 * max(abs(left), abs(right), time_s)
    return str(left) == str(right)


def missing(value: Any) -> bool:
    """Whether a cell is empty."""
    return value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value))


def compare(before: Path, after: Path, which: str) -> int:
    """Print every difference, and what was not compared; how many runs differ."""
    differing, compared, absent, failed = 0, 0, [], []
    for path in sorted(before.glob("*.pickle")):
        other = after / path.name
        if which not in path.name:
            continue
        if not other.exists():
            absent.append(path.stem)
            continue
        (left, left_error), (right, right_error) = (
            pickle.loads(each.read_bytes()) for each in (path, other)
        )
        if not (left or right):  # neither has left anything: there is nothing to compare
            failed.append(f"{path.stem} ({left_error})")
        else:
            compared += 1
        found = difference(left, right)
        if left_error != right_error:
            found.insert(0, f"ended as {left_error} and as {right_error}")
        if found:
            differing += 1
            print(f"{path.stem}:", *found, sep="\n    ")
    for names, why in ((absent, "not in the second folder"), (failed, "failed in both")):
        if names:
            print(f"not compared, {why}:", *names, sep="\n    ")
    print(f"{compared} runs compared, {len(absent) + len(failed)} not; {differing} differ")
    return differing


def too_long(*_: Any) -> None:
    """A scenario takes too long."""
    raise TimeoutError(f"more than {MOST_S} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["freeze", "compare"])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--mixes", type=int, default=0)
    parser.add_argument("--versions", type=int, default=5)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    signal.signal(signal.SIGALRM, too_long)
    if asked.what == "freeze":
        freeze(asked.folders[0], asked.versions, asked.mixes, asked.only or None)
    else:
        sys.exit(bool(compare(*asked.folders, asked.only)))
