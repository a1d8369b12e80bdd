"""A search that runs: the same trials however it is run, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from simfl.cli.app import app
from simfl.scenario.yaml_source.error import ScenarioError
from simfl.study.finished import is_finished
from simfl.study.session import StudySession
from simfl.study.studyfile import NOT_OF_THE_RUN, Study
from simfl.study.worker import work
from tests.study.studies import write_study

pytest.importorskip("optuna", reason="a search needs Optuna: simfl[search]")

ROOT = Path(__file__).parents[2]

SEARCH: dict[str, Any] = {
    "trials": 3,
    "batch": 2,
    "over": {
        "population.compute_noise": {"low": 0.01, "high": 1.0, "scale": "log"},
        "population.groups.0.device": ["rpi_4b", "rpi_5", "jetson_nano"],
    },
    "minimize": "time_s",
    "subject_to": {"client_energy_j": "<= 40"},
}
TIMING_ONLY: dict[str, Any] = {
    "data": {"name": "sizes", "examples_per_client": 100},
    "model": "lenet",
    "algorithm": {"name": "none", "local": {"epochs": 1}},
}


def write(folder: Path, **changes: Any) -> Path:
    """A search of three trials with two seeds, over runs that train nothing."""
    folder.mkdir(exist_ok=True)
    content: dict[str, Any] = {"points": None, "search": SEARCH, "questions": None}
    return write_study(folder, base=TIMING_ONLY, **{**content, **changes})


def begin(folder: Path, **changes: Any) -> StudySession:
    """The search, continued from its folder."""
    return StudySession(Study.from_yaml(write(folder, **changes)), folder / "out")


def simulated(table: pd.DataFrame) -> pd.DataFrame:
    """A table without what says how it was computed."""
    return table.drop(columns=list(NOT_OF_THE_RUN))


def test_a_search_that_is_cut_off_goes_on_with_the_same_trials(tmp_path: Path) -> None:
    """Killed after its third run, with runs ending in another order: the table is the same.

    A batch with a missing run blocks the next one, which depends on all of its runs.
    """
    whole = begin(tmp_path / "whole")
    assert (whole.size(), whole.missing(), whole.later, len(whole.todo())) == (6, 6, 2, 4)
    for task in whole.tasks(whole.todo()):
        work(task)
    assert whole.advance()
    for task in whole.tasks(whole.todo()):
        assert work(task).status == "completed"
    assert not whole.advance()
    table = whole.collect().table
    assert whole.missing() == 0 and is_finished(whole.study, whole.folder.path)
    assert whole.standing.startswith("2 of 3 trials ended, best so far: time_s ")

    killed = begin(tmp_path / "killed")
    for task in killed.tasks(killed.todo()[:0:-1]):
        work(task)
    assert not killed.advance()
    assert (len(killed.todo()), killed.missing()) == (1, 3)
    assert len(killed.collect().table) == 3
    assert not is_finished(killed.study, killed.folder.path)
    for left in (1, 2):
        resumed = begin(tmp_path / "killed")
        assert len(resumed.todo()) == left
        for task in resumed.tasks(resumed.todo()):
            work(task)

    again = resumed.collect().table
    pd.testing.assert_frame_equal(simulated(again), simulated(table))
    assert table["point"].nunique() == 3
    assert not table.drop_duplicates("point").duplicated(list(SEARCH["over"])).any()


def test_a_value_that_the_scenario_refuses_is_told_before_anything_runs(tmp_path: Path) -> None:
    """And a key that nothing reads, whichever of the values comes with it; nothing is written."""
    devices = {"population.groups.0.device": ["rpi_4b", "rpi_5", "rpi_44"]}
    unread = {"population.side_m": {"low": 1.0, "high": 4.0}}

    for over, words in ((devices, "rpi_44"), (unread, "population.side_m: nothing reads it")):
        with pytest.raises(ScenarioError, match=words):
            begin(tmp_path, search={**SEARCH, "trials": 2, "over": over})
    with pytest.raises(ScenarioError, match="search varies it"):
        Study.from_yaml(write(tmp_path), overrides=["population.compute_noise=0.1"])
    assert not (tmp_path / "out").exists()


def test_a_figure_that_no_run_has_ends_the_search(tmp_path: Path) -> None:
    """After its first batch, as the scenario does not compute that measure."""
    goal = {"minimize": "waiting.idle_time_share", "subject_to": {}}
    one = begin(tmp_path, search={**SEARCH, **goal, "batch": 1}, seeds=[1])
    assert [work(task).status for task in one.tasks(one.todo())] == ["completed"]

    with pytest.raises(
        ScenarioError, match=r"search: found waiting\.idle_time_share, accepted: fig"
    ):
        one.advance()


def test_shares_of_a_search_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As later trials are not known; and where Optuna is missing, its extra is named."""
    arguments = ["study", str(write(tmp_path)), "--out", str(tmp_path / "out")]

    shared = CliRunner().invoke(app, [*arguments, "--shard", "1/2"])
    monkeypatch.setitem(sys.modules, "optuna", None)
    without = CliRunner().invoke(app, arguments)

    assert (shared.exit_code, without.exit_code) == (2, 2)
    assert "a search knows its next trials when" in shared.output
    assert "simfl: a search needs Optuna: pip install 'simfl[search]'" in without.output
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_one_worker_and_three_print_the_same(tmp_path: Path) -> None:
    """The output is byte-identical except for the folder; repeating it runs nothing."""
    said = []
    for workers in (1, 3, 3):
        out = tmp_path / f"out{workers}"
        file = write(tmp_path, search={**SEARCH, "trials": 9, "batch": 4})
        options = (file, "--out", out, "--workers", workers)
        done = subprocess.run(
            [sys.executable, "-m", "simfl", "study", *map(str, options)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        said.append(done.stdout.replace(str(out), "OUT"))
        lines = done.stderr.splitlines()
        assert len([line for line in lines if "trials ended" in line]) == (len(said) < 3) * 2
    assert said[0] == said[1] == said[2]
    assert "the path of 9 trials, 18 runs" in " ".join(said[0].split())
