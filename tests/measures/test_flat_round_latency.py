"""Seconds per version of runs without edge servers, on paper and from the log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import simfl
from simfl.measures.dispatches import flat_rounds
from simfl.measures.round_latency import RoundLatency, round_latencies
from simfl.runs.runfolder import LoadedRun
from tests.protocols.test_hand_timeline import PROFILES, SCENARIO
from tests.small import SEMI_ASYNCHRONOUS, small


def by_hand(folder: Path, *overrides: str) -> LoadedRun:
    """The hand-computed machines, under a flat protocol."""
    (folder / "profiles").mkdir()
    for name, text in PROFILES.items():
        (folder / "profiles" / f"{name}.yaml").write_text(text)
    tiers = ("  edges: 1\n", "  edge_server: machine\n", "  backhaul: wire\n")
    text = SCENARIO
    for line in tiers:
        text = text.replace(line, "")
    (folder / "scenario.yaml").write_text(text)
    scenario = simfl.Scenario.from_yaml(folder / "scenario.yaml", overrides)
    return simfl.run(scenario, folder / "run")


def test_synchronous_rounds_on_paper(tmp_path: Path) -> None:
    """The slow client's 0.75 + 2 + 1.25 s and the cloud's 0.5 + 0.25 s, twice."""
    run = by_hand(tmp_path, "protocol=synchronous", "evaluate.measures=[round_latency]")

    assert flat_rounds(run)["dispatched_s"].tolist() == [0.0, 4.75]
    assert run.manifest["measures"]["round_latency"] == {
        "latency_mean_s": 4.75,
        "latency_cov": 0.0,
        "arrival_gap_cov": 0.0,
    }


def test_asynchronous_updates_on_paper(tmp_path: Path) -> None:
    """From each client's dispatch: the fast one arrives after 3 s, the slow one after 4.

    The cloud takes 0.25 + 0.25 s for one update, and the fast client goes on at 3.5: it is back at
    6.5, when the slow one's update has been in since 4.5.
    """
    run = by_hand(tmp_path, "protocol=asynchronous", "stop.versions=3")

    found = round_latencies(run)

    assert found.latency_s.tolist() == [3.5, 4.5, 3.5]
    assert found.gap_s.tolist() == [1.0, 2.5]
    mean_s = 11.5 / 3
    assert RoundLatency().compute(run)["latency_mean_s"] == pytest.approx(mean_s)


def test_waiting_for_clients_is_between_rounds(tmp_path: Path) -> None:
    """Against the log, with clients that come and go."""
    scenario = small(
        algorithm={"name": "none", "local": {"steps": 2}},
        protocol={"name": "synchronous", "wait_for": {"clients": 8, "limit_s": 20.0}},
        population={"availability": {"name": "periodic", "period_s": 60.0, "share": 0.5}},
        stop={"versions": 4},
    )
    run = simfl.run(scenario, tmp_path / "run")

    select_s = run.events.query("kind == 'select'").set_index("round")["time_s"]
    ends_s, rounds = run.rounds["time_s"].to_numpy(), run.rounds["round"]
    begins_s = select_s[rounds].to_numpy()
    found = round_latencies(run)
    np.testing.assert_array_equal(found.latency_s, ends_s - begins_s)
    np.testing.assert_array_equal(found.gap_s, np.diff(ends_s))
    assert (found.gap_s > 19.0).all()
    assert found.latency_s.max() < 5.0


def test_runs_with_tiers_have_no_flat_rounds(tmp_path: Path) -> None:
    """Not even one that ended in round 0, in which nothing was scheduled."""
    run = simfl.run(small(protocol=SEMI_ASYNCHRONOUS, stop={"versions": 1}), tmp_path / "run")

    assert flat_rounds(run).empty
    assert RoundLatency().compute(run) == {}
