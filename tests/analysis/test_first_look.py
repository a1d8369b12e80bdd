"""The first look at a run: its numbers add up, its figures are there."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

import simfl
from simfl.runs.runfolder import LoadedRun

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "analysis" / "first_look.py"


def make_run(folder: Path, *overrides: str) -> LoadedRun:
    """A tiny run of a shipped scenario."""
    path = ROOT / "scenarios" / "timing_only.yaml"
    small = ["population.clients=8", "population.edges=2", "decisions.selection.count=3"]
    return simfl.run(simfl.Scenario.from_yaml(path, [*small, *overrides]), folder)


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the script on a folder, as the command line does; its variables."""

    def run_script(folder: Path) -> dict[str, Any]:
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(folder)])
        names = runpy.run_path(str(SCRIPT), run_name="__main__")
        plt.close("all")
        return names

    return run_script


def test_waiting_and_work_fill_the_run(tmp_path: Path, look: Any) -> None:
    """Shares of each client's time add up to 1, none is negative, every round has one straggler."""
    make_run(tmp_path / "run", "stop.time_s=3.0")

    names = look(tmp_path / "run")

    waiting, rounds = names["waiting"], names["rounds"]
    shares = waiting[["download", "compute", "upload", "for slower clients", "for the server"]]
    # Rounds cut at the end are not counted as waiting for slower clients.
    assert shares.sum(axis=1).to_numpy() == pytest.approx(np.ones(8))
    assert (shares.to_numpy() > -1e-9).all()
    assert waiting["straggler"].sum() == len(rounds)
    assert (rounds["longest_wait_s"] <= rounds["duration_s"]).all()


def test_a_round_lasts_as_long_as_its_straggler(tmp_path: Path, look: Any) -> None:
    """The edge server aggregates at the moment when the straggler's upload ends."""
    run = make_run(tmp_path / "run", "stop={versions: 4}")

    rounds = look(tmp_path / "run")["rounds"]

    begun = run.events[run.events["kind"] == "edge_aggregate"].set_index(["edge", "version"])
    for one in rounds.itertuples():
        if (one.edge, one.version + 1) in begun.index:
            aggregated_s = begun.loc[(one.edge, one.version + 1), "start_s"]
            assert one.end_s == pytest.approx(aggregated_s, abs=1e-12)


def test_the_joules_are_all_of_them(tmp_path: Path, look: Any) -> None:
    """The table by machine and state sums to the run's energy, and both figures are saved."""
    run = make_run(tmp_path / "run", "stop={versions: 3}")

    names = look(tmp_path / "run")

    assert names["joules"].to_numpy().sum() == pytest.approx(run.manifest["energy_j"])
    for figure in ("first_look_waiting.png", "first_look_energy.png"):
        assert (tmp_path / "run" / figure).read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_run_without_clients_edges_is_understood(tmp_path: Path, look: Any) -> None:
    """Under a flat protocol a round is a round of the one server."""
    path = ROOT / "scenarios" / "timing_only.yaml"
    flat = ["population.clients=10", "protocol=synchronous", "stop={versions: 3}"]
    simfl.run(simfl.Scenario.from_yaml(path, flat), tmp_path / "run")

    assert len(look(tmp_path / "run")["rounds"]) == 3


@pytest.mark.slow
def test_queries_are_no_client_rounds(tmp_path: Path, look: Any) -> None:
    """A round begins when clients are dispatched, not when they are asked for their losses."""
    run = make_run(
        tmp_path / "run", "stop={versions: 3}", "decisions.selection.name=power_of_choice"
    )

    rounds = look(tmp_path / "run")["rounds"].set_index(["edge", "version"]).sort_index()

    selects = run.details("select").set_index(["edge", "version"])["time_s"]
    assert run.events["detail"].str.contains('"query"', na=False).any()
    assert rounds["start_s"].tolist() == selects.loc[rounds.index].tolist()


def test_a_run_without_events_is_refused(tmp_path: Path, look: Any) -> None:
    """What to do about it is said."""
    make_run(tmp_path / "run", "stop={versions: 1}", "log.level=rounds")

    with pytest.raises(SystemExit, match=r"log\.level: full"):
        look(tmp_path / "run")
