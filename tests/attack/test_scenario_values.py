"""Scenarios of the right types with numbers that nobody means: refused, or run to an end."""

from __future__ import annotations

import copy
import json
import math
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from simfl.scenario.yaml_source.text import dump
from tests.attack.commands import Ended, ended
from tests.attack.numbers import EXTREME, WORK, hardware, places, put, scenario

CASES, PER_TEST = 600, 30
ENDS = {0: "completed", 1: "failed", 3: "diverged"}


def extreme(number: int, folder: Path) -> tuple[Path, list[str]]:
    """The scenario file of a case, and the keys whose numbers were replaced."""
    rng = random.Random(number)
    files = {"scenario": scenario(rng), **hardware(rng)}
    files = copy.deepcopy(files)
    everywhere = [(name, place) for name, content in files.items() for place in places(content)]
    changed = []
    for name, place in rng.sample(everywhere, k=rng.choice([1, 1, 2])):
        put(files[name], place, rng.choice(EXTREME))
        changed.append(".".join(map(str, (name, *place))))
    case = folder / str(number)
    (case / "own").mkdir(parents=True)
    for name, content in files.items():
        own = case / "scenario.yaml" if name == "scenario" else case / "own" / f"{name}.yaml"
        own.write_text(dump(content))
    return case / "scenario.yaml", changed


def asks_for_work(changed: list[str]) -> bool:
    """Whether one of the replaced numbers says how much is to be done."""
    return any(step in WORK for key in changed for step in key.split("."))


def wrong_with(end: Ended, out: Path) -> str | None:
    """What is wrong with the end of a run in the folder `out`; None: nothing."""
    lines = end.stderr.splitlines()
    if end.escaped is not None or end.exit_code not in ENDS:
        return f"{end}"
    if end.exit_code and not (lines and lines[-1].startswith("simfl: ")):
        return f"no line says why: {end}"
    manifest: dict[str, Any] = json.loads((out / "manifest.json").read_text())
    if manifest["status"] != ENDS[end.exit_code]:
        return f"status {manifest['status']}: {end}"
    for name in ("events", "rounds"):
        for file in sorted(out.rglob(f"{name}*.parquet")):
            table = pq.read_table(file)
            for column in ("time_s", "start_s", "duration_s", "energy_j"):
                times = table[column].to_pylist() if column in table.column_names else []
                if not all(one is None or math.isfinite(one) for one in times):
                    return f"{file.name}: {column} is not finite: {end}"
    return None


@pytest.mark.slow
@pytest.mark.filterwarnings("default::RuntimeWarning")
@pytest.mark.parametrize("first", range(0, CASES, PER_TEST))
def test_extreme_numbers_are_refused_or_run_to_an_end(first, tmp_path):
    """Completed, diverged or stalled, with finite times: no traceback, nothing beyond a minute."""
    wrong, ran = [], 0
    for number in range(first, first + PER_TEST):
        file, changed = extreme(number, tmp_path)
        check = ended(["validate", str(file)])
        if not check.accepted and not check.refused:
            wrong.append((number, changed, "validate", f"{check}"))
        if not check.accepted or asks_for_work(changed):
            continue
        out = file.parent / "run"
        problem = wrong_with(ended(["run", str(file), "--out", str(out), "--device", "cpu"]), out)
        ran += 1
        if problem is not None:
            wrong.append((number, changed, "run", problem))

    assert wrong == []
    assert ran > PER_TEST // 10
