"""Files that a scenario names count by what lies in them, not by where they lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simfl
from simfl.assembly.assemble import assemble, outlined
from simfl.assembly.simulation import Options
from simfl.common.files import content_of
from simfl.runs.files import FolderInUse
from simfl.scenario.scenario import Scenario
from simfl.system.traces.tables import Capacities, make_intervals
from tests.small import SMALL

TRACED = {**SMALL["population"], "availability": {"name": "trace", "file": "there.parquet"}}


def save_intervals(folder: Path, end_s: float) -> None:
    """Two clients that are there from 10 s to `end_s` of 100 s."""
    folder.mkdir(exist_ok=True)
    intervals, _ = make_intervals([0, 1], [10.0, 10.0], [end_s, end_s], [100.0, 100.0])
    intervals.write(folder / "there.parquet")


def save_rate(folder: Path, rate_bps: float) -> None:
    """One client with that rate both ways."""
    rate = np.array([rate_bps])
    Capacities(np.array([np.nan]), rate, rate).write(folder / "rates.parquet")


def digest(content: dict[str, Any], folder: Path, root: Path | None = None) -> str:
    """The digest of a scenario in this folder, with its data below `root`."""
    return outlined(Scenario.from_mapping({**SMALL, **content}, folder).below(root)).digest


def test_a_trace_counts_by_its_rows(tmp_path: Path) -> None:
    """In another folder, beside the scenario or below the root, it is the same simulation."""
    save_intervals(tmp_path / "one", 60.0)
    save_intervals(tmp_path / "two", 60.0)
    (tmp_path / "three").mkdir()
    first = digest({"population": TRACED}, tmp_path / "one")

    assert first == digest({"population": TRACED}, tmp_path / "two")
    assert first == digest({"population": TRACED}, tmp_path / "three", tmp_path / "two")
    save_intervals(tmp_path / "two", 61.0)
    assert first != digest({"population": TRACED}, tmp_path / "two")
    save_intervals(tmp_path / "two", 60.0)
    assert first == digest({"population": TRACED}, tmp_path / "two")


def test_the_trace_of_a_group_and_of_rates_counts_too(tmp_path: Path) -> None:
    """Wherever in a population the file is named."""
    save_intervals(tmp_path, 60.0)
    save_rate(tmp_path, 1e6)
    group = {**SMALL["population"]["groups"][0], "availability": TRACED["availability"]}
    ours = {**SMALL["population"], "groups": [group, SMALL["population"]["groups"][1]]}
    rates = {**SMALL["population"], "rate_trace": "rates.parquet"}
    before = [digest({"population": one}, tmp_path) for one in (ours, rates)]

    save_intervals(tmp_path, 50.0)
    save_rate(tmp_path, 2e6)

    assert not set(before) & {digest({"population": one}, tmp_path) for one in (ours, rates)}


def test_arrays_below_the_data_root_count_by_content(tmp_path: Path) -> None:
    """For the run and for what it learns: a copy elsewhere gives the same keys."""
    inputs, classes = np.arange(80, dtype=np.float32).reshape(40, 2), np.arange(40) % 2
    arrays = {"x_train": inputs, "y_train": classes, "x_test": inputs, "y_test": classes}
    data = {"name": "npz", "path": "own.npz", "partition": "iid"}
    simulations = []
    for name, shift in (("one", 0.0), ("two", 0.0), ("three", 1.0)):
        (tmp_path / name).mkdir()
        np.savez(tmp_path / name / "own.npz", **{**arrays, "x_test": inputs + shift})
        scenario = Scenario.from_mapping({**SMALL, "data": data}, tmp_path)
        simulations.append(assemble(scenario, Options(data_root=tmp_path / name)))

    one, two, three = [(each.digest, each.root) for each in simulations]
    assert one == two
    assert one[0] != three[0]


def test_a_folder_counts_by_names_and_sizes(tmp_path: Path) -> None:
    """A file more, a longer one: another folder."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.txt").write_text("1")
    seen = [content_of(tmp_path)]
    (tmp_path / "a" / "x.txt").write_text("12")
    seen.append(content_of(tmp_path))
    (tmp_path / "y.txt").write_text("1")
    seen.append(content_of(tmp_path))

    assert len(set(seen)) == 3


def test_a_run_is_not_resumed_on_another_trace(tmp_path: Path) -> None:
    """What was asked for has changed with the file."""
    save_intervals(tmp_path, 60.0)
    content = {
        **SMALL,
        "population": TRACED,
        "algorithm": {"name": "none", "local": SMALL["algorithm"]["local"]},
        "stop": {"versions": 1},
    }
    scenario = Scenario.from_mapping(content, tmp_path)
    simfl.run(scenario, tmp_path / "run")
    save_intervals(tmp_path, 50.0)

    with pytest.raises(FolderInUse, match=r"of this scenario, but a file .* has another content"):
        simfl.run(scenario, tmp_path / "run", resume=True)
