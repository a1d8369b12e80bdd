"""A study's runs: never twice, shared training, one row each, whatever goes wrong."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import simfl
from simfl.runs.files import FolderInUse
from simfl.runs.runfolder import RunFolderError
from simfl.runs.summary import main_figures
from simfl.study.loaded import load_study
from simfl.study.rows import row
from simfl.study.session import BadShard
from tests.small import small
from tests.study.studies import run_here, session


def test_one_row_per_run(tmp_path: Path) -> None:
    """Factors, figures and targets as columns; the figures are those of the run folders."""
    one = session(tmp_path)
    run_here(one)

    table = one.collect().table

    assert len(table) == 8
    assert pd.read_parquet(tmp_path / "out" / "runs.parquet").equals(table)
    assert set(table["population.groups.0.device"]) == {"rpi_4b", "rpi_5"}
    assert (table["status"] == "completed").all()
    last = table.iloc[-1]
    run = simfl.load_run(tmp_path / "out" / last["folder"])
    assert last["accuracy"] == run.rounds["accuracy"].iloc[-1]
    assert last["energy_j"] == run.manifest["energy_j"]
    assert last["time_to_accuracy_0.1_s"] == run.time_to(accuracy=0.1)
    assert last["bytes_to_accuracy_0.1_b"] == run.bytes_to(accuracy=0.1)
    assert run.scenario["seed"] == last["seed"]
    assert run.scenario["algorithm"]["local"]["steps"] == last["algorithm.local.steps"]


def test_a_loss_is_known_without_an_accuracy(tmp_path: Path) -> None:
    """As of a Flower app that reports one of them alone: the last of each stands in the row."""
    one = session(tmp_path, seeds=[1], points={})
    run_here(one)
    run = simfl.load_run(tmp_path / "out" / one.collect().table["folder"][0])
    last_loss = run.rounds["loss"].iloc[-1]
    accuracies = run.rounds["accuracy"].to_numpy()
    run.rounds = run.rounds.assign(accuracy=[accuracies[0], *[math.nan] * (len(accuracies) - 1)])

    found = row(run, {})

    assert (found["accuracy"], found["loss"]) == (accuracies[0], last_loss)
    run.rounds["accuracy"] = math.nan
    assert math.isnan(row(run, {})["accuracy"]) and row(run, {})["loss"] == last_loss
    assert [name for name, _ in main_figures(run.manifest, (math.nan, last_loss))[:2]] == [
        "loss",
        "global versions",
    ]


def test_points_share_training(tmp_path: Path) -> None:
    """Other devices change no job of a synchronous run: each is trained once."""
    one = session(tmp_path, seeds=[1])
    run_here(one)

    table = one.collect().table.set_index(["population.groups.0.device", "algorithm.local.steps"])

    assert (table.loc["rpi_4b", "jobs_trained"] > 0).all()
    assert (table.loc["rpi_5", "jobs_trained"] == 0).all()
    assert (table.loc["rpi_5", "accuracy"] == table.loc["rpi_4b", "accuracy"]).all()
    assert (table.loc["rpi_5", "time_s"] < table.loc["rpi_4b", "time_s"]).all()


def test_no_point_is_run_twice(tmp_path: Path) -> None:
    """Neither by the same command again nor by a study that has grown."""
    run_here(session(tmp_path, seeds=[1]))

    again, grown = session(tmp_path, seeds=[1]), session(tmp_path, seeds=[1, 2])

    assert again.todo() == []
    assert [point.seed for point in grown.todo()] == [2] * 4
    run_here(grown)
    assert len(grown.collect().table) == 8


def test_equal_points_are_one_run(tmp_path: Path) -> None:
    """Two rows of the table, one run folder."""
    variants = {"a": {}, "b": {"algorithm.local.steps": 1}}
    one = session(tmp_path, seeds=[1], points={"variants": variants})

    outcomes = run_here(one)
    table = one.collect().table

    assert len(outcomes) == 1
    assert table["variant"].tolist() == ["a", "b"]
    assert table["folder"].nunique() == 1


def test_a_run_that_was_cut_off_goes_on(tmp_path: Path) -> None:
    """Killed before its manifest, or in the middle: the result is that of an undisturbed run."""
    one = session(tmp_path, seeds=[1], points=None)
    (point,) = one.todo()
    folder = one.folder.run_folder(point)
    run_here(one)
    events = (folder / "events.parquet").read_bytes()
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "status": "running"}))

    outcomes = run_here(one)

    assert [outcome.status for outcome in outcomes] == ["completed"]
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "run.lock").touch()
    assert [outcome.status for outcome in run_here(one)] == ["completed"]
    assert (folder / "events.parquet").read_bytes() == events
    assert one.todo() == []


def test_a_point_that_fails_leaves_the_others_alone(tmp_path: Path) -> None:
    """Its outcome says why, it has no row, and it is tried again."""
    (tmp_path / "own.py").write_text(
        "from dataclasses import dataclass\n"
        "from simfl.decisions.base import Selection\n"
        "@dataclass(frozen=True)\n"
        "class Broken(Selection):\n"
        "    def decide(self, memory, view, rng):\n"
        "        raise KeyError('oh')\n"
    )
    grid = {"decisions.selection": ["own.py:Broken", "all"]}
    one = session(tmp_path, seeds=[1], points={"grid": grid})

    outcomes = run_here(one)

    assert [outcome.status for outcome in outcomes] == ["failed", "completed"]
    assert outcomes[0].message.endswith("own.py:6 in Broken.decide: KeyError: 'oh'")
    assert one.collect().table["decisions.selection"].tolist() == ["all"]
    assert len(one.todo()) == 1


def test_a_diverged_run_has_a_row_and_is_not_tried_again(tmp_path: Path) -> None:
    """Divergence is a result; comparisons leave it out."""
    grid = {"algorithm.local.learning_rate": [0.1, 1.0e30]}
    keys = {"algorithm.local.steps": 3, "algorithm.local.weight_decay": 1.0}
    one = session(tmp_path, seeds=[1], points={"grid": grid}, set=keys)

    outcomes = run_here(one)
    study = one.collect()

    assert [outcome.status for outcome in outcomes] == ["completed", "diverged"]
    assert study.table["status"].tolist() == ["completed", "diverged"]
    assert study.completed["algorithm.local.learning_rate"].tolist() == [0.1]
    assert one.todo() == []


def test_a_point_that_another_process_runs_is_left_to_it(tmp_path: Path) -> None:
    """Claims exclude one another, and end with their block."""
    one = session(tmp_path, seeds=[1], points=None)
    (point,) = one.todo()

    with one.folder.claim(point.folder_name) as mine:
        assert mine
        assert [outcome.status for outcome in run_here(one)] == ["elsewhere"]

    assert [outcome.status for outcome in run_here(one)] == ["completed"]


def test_levels_of_several_types(tmp_path: Path) -> None:
    """A column holds one type: text where numbers and text are mixed."""
    grid = {"decisions.selection": ["all", {"name": "random", "share": 0.5}]}
    one = session(tmp_path, seeds=[1], points={"grid": {**grid, "stop.versions": [1, 2]}})
    run_here(one)

    table = one.collect().table

    assert set(table["decisions.selection"]) == {"all", "random share=0.5"}
    assert table["stop.versions"].tolist() == [1, 2, 1, 2]


@pytest.mark.parametrize("share", ["0/2", "3/2", "1", "a/b", "-1/2"])
def test_a_share_that_there_is_not(tmp_path: Path, share: str) -> None:
    """Counted from 1 to the number of shares."""
    with pytest.raises(BadShard, match="accepted: I/N with 1 <= I <= N"):
        session(tmp_path).todo(share)


def test_shares_are_gathered(tmp_path: Path) -> None:
    """What one share has run, the other need not; the table is that of the whole study."""
    one = session(tmp_path)
    run_here(one, "1/2")

    assert len(one.todo("1/2")) == 0
    assert len(one.todo("2/2")) == 4
    run_here(one, "2/2")
    assert len(one.collect().table) == 8


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    """Nothing is written into it."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "letter.txt").write_text("dear")

    with pytest.raises(FolderInUse, match="not empty and no study's folder"):
        session(tmp_path)

    assert [path.name for path in (tmp_path / "out").iterdir()] == ["letter.txt"]


def test_reading_what_is_no_study(tmp_path: Path) -> None:
    """Said plainly, as for run folders; a study not yet gathered says how to."""
    with pytest.raises(RunFolderError, match="no study's folder"):
        load_study(tmp_path)
    session(tmp_path)
    with pytest.raises(RunFolderError, match=r"no runs\.parquet yet; run `simfl study"):
        load_study(tmp_path / "out")


def test_a_measures_figures_are_columns(tmp_path: Path) -> None:
    """Named after the measure."""
    settings: dict[str, Any] = {"evaluate.measures": ["participation"]}
    one = session(tmp_path, seeds=[1], points=None, set=settings)
    run_here(one)

    assert one.collect().table["participation.jain_index"].tolist() == [1.0]


def test_the_variation_of_versions_is_that_of_the_measure(tmp_path: Path) -> None:
    """A run's own deviation, over all of its versions: one figure, by both names."""
    run = simfl.run(small(evaluate={"measures": ["round_latency"]}), tmp_path / "run")

    found = row(run, {})

    assert found["latency_cv"] == found["round_latency.arrival_gap_cov"] > 0.0
