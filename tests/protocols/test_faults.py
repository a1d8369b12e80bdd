"""Faults in whole runs: no protocol hangs, nothing is counted twice, everything is in the log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from simfl.system.server_id import CLOUD
from tests.protocols.faults import PROTOCOLS, Watched, check_promises, faulty, outages
from tests.small import simulated, small

COMES_AND_GOES = {
    "name": "renewal",
    "present": {"mean_s": 0.05, "law": "exponential"},
    "absent": {"mean_s": 0.05, "law": "exponential"},
}
EVERYTHING: dict[str, Any] = {
    "availability": COMES_AND_GOES,
    "message_loss": {"probability": 0.1, "timeout_s": 0.02},
    "faults": {
        "clients": outages(0.2, 0.05),
        "edge_servers": outages(1.0, 0.1),
        "cloud_link": outages(0.5, 0.05),
    },
    # Two joules at most of a phone; those of the boards are on mains power.
    "batteries": {"initial": [1e-6, 4e-5], "lowest": 1e-6, "charge_w": 0.0},
}


@pytest.mark.parametrize("leaving", ["ignore", "pause", "abort"])
@pytest.mark.parametrize("protocol", list(PROTOCOLS))
def test_every_protocol_keeps_its_promises(tmp_path: Path, protocol: str, leaving: str) -> None:
    """With everything that can go wrong, versions come out and the books balance."""
    watched = Watched(faulty(protocol, versions=60, leaving=leaving, **EVERYTHING), tmp_path)

    check_promises(watched)
    assert watched.stalled == ""
    assert len(watched.run.publications.rounds) >= 3
    assert {"crash", "unavailable"} & set(watched.events["kind"])


def test_an_edge_server_without_clients_does_not_hang_the_cloud(tmp_path: Path) -> None:
    """All clients of one edge are gone for good: it reports after its deadline, with nothing."""
    gone = {"name": "tests.protocols.availabilities:Gone", "clients": [0, 1, 2, 3]}
    protocol = {**PROTOCOLS["semi_asynchronous"], "patience": {"deadline_s": 0.05}}

    watched = Watched(faulty(protocol, availability=gone), tmp_path)

    merged = watched.events.query("kind == 'cloud_aggregate'")
    homes = watched.run.edge
    assert set(homes[:4]) == {0} and set(homes[4:]) == {1}
    assert watched.run.publications.rounds[-1]["version"] > 5
    assert set(merged["edge"]) == {1}
    reports = watched.events.query("kind == 'select' and edge == 0")
    assert len(reports) > 2
    assert (reports["value"] == 0).all()


def test_where_nobody_will_ever_come_the_run_says_so(tmp_path: Path) -> None:
    """Deadlines do not make a run without clients go on for ever."""
    gone = {"name": "tests.protocols.availabilities:Gone", "clients": list(range(8))}
    protocol = {**PROTOCOLS["hierarchical"], "patience": {"deadline_s": 0.05}}

    watched = Watched(faulty(protocol, availability=gone), tmp_path)

    assert "no client will ever be available" in watched.stalled
    assert "batteries" not in watched.stalled
    assert watched.run.clock.now_s < 0.1


@pytest.mark.parametrize("patience", [{}, {"deadline_s": 0.05}])
def test_where_batteries_keep_everybody_away_the_run_says_so(
    patience: dict[str, float], tmp_path: Path
) -> None:
    """All are phones, charged to less than they need, and there is no charger."""
    phones = {
        "groups": [{"device": "phone_high_sd865", "link": "lte_2021", "count": 8}],
        "batteries": {"initial": [0.05, 0.1], "charge_w": 0},
    }
    protocol = {"name": "synchronous", "patience": patience}

    watched = Watched(faulty(protocol, **phones), tmp_path)

    assert "8 have batteries that are too low, and nothing charges them enough" in watched.stalled


def test_what_an_edge_server_had_when_it_crashed_is_lost(tmp_path: Path) -> None:
    """Crashes in the log: in a dispatch that a crash ends nothing goes up to the cloud."""
    faults = {"edge_servers": outages(0.3, 0.1)}
    watched = Watched(faulty("semi_asynchronous", faults=faults), tmp_path)

    check_promises(watched)
    events = watched.events
    crashes = events.query("kind == 'crash'")
    assert len(crashes) >= 2
    for crash in crashes.itertuples():
        assert json.loads(crash.detail) == {"what": "edge_server"}
        edge = events[events["actor"] == crash.actor]
        idle = edge[
            (edge["start_s"] < crash.time_s + crash.value) & (edge["time_s"] > crash.time_s)
        ]
        assert set(idle["kind"]) <= {"idle"}
    # Every dispatch whose model went up is merged, once; the others are not.
    backhaul = events[events["client"].isna()]
    went_up = set(backhaul.query("kind == 'upload' and bytes > 0")["round"])
    merged = events.query("kind == 'cloud_aggregate'")["round"].tolist()
    dispatches = set(backhaul.query("kind == 'download'")["round"])
    assert len(merged) == len(set(merged))
    assert set(merged) <= went_up < dispatches


def test_a_repaired_edge_server_gets_the_version_that_there_is_by_then(tmp_path: Path) -> None:
    """It broke while it was idle and was dispatched; the cloud went on with the others' models."""
    protocol = {**PROTOCOLS["semi_asynchronous"], "edge_rounds": 1, "concurrency": 2}
    faults = {"edge_servers": outages(0.3, 0.3)}
    watched = Watched(faulty(protocol, versions=200, edges=4, faults=faults), tmp_path)

    check_promises(watched)
    published_s = np.array([row["time_s"] for row in watched.run.publications.rounds])
    downloads = watched.events.query("kind == 'download' and client != client")
    known = np.searchsorted(published_s, downloads["start_s"], side="left")
    assert len(downloads) > 20
    assert (downloads["version"] >= known).all()
    # Staleness is what the cloud has learned since the download began.
    merges = watched.events.query("kind == 'cloud_aggregate'").set_index(["round", "edge"])
    begun = downloads.set_index(["round", "edge"])["version"]
    started = merges["version"] - 1 - merges["staleness"]
    assert (started == begun.reindex(merges.index)).all()


def test_a_cloud_link_that_is_cut_delays_and_loses_nothing_for_good(tmp_path: Path) -> None:
    """Messages cut off count as lost and are sent again: every dispatch is merged."""
    faults = {"cloud_link": outages(0.02, 0.02)}
    watched = Watched(faulty("hierarchical", faults=faults), tmp_path)
    calm = Watched(faulty("hierarchical"), tmp_path / "calm")

    check_promises(watched)
    cut = watched.events.query("kind == 'crash'")
    assert {json.loads(text)["what"] for text in cut["detail"]} == {"cloud_link"}
    assert watched.run.accounts.bytes_by_fate["bytes_lost"] > 0
    merged = watched.events.query("kind == 'cloud_aggregate'")
    assert {json.loads(text)["updates"] for text in merged["detail"]} == {2}
    rounds, smooth = watched.run.publications.rounds, calm.run.publications.rounds
    assert rounds[0]["time_s"] > smooth[0]["time_s"]


def test_batteries_hold_what_the_log_says(tmp_path: Path) -> None:
    """Charge at the end = at the start + charged - drawn; what is drawn is in the log."""
    population = {
        "groups": [{"device": "phone_high_sd865", "link": "lte_2021", "share": 1.0}],
        "batteries": {"initial": [2e-6, 1e-5], "lowest": 1e-6, "charge_w": 0.0},
    }
    watched = Watched(faulty("asynchronous", versions=1000, **population), tmp_path)
    world, clients = watched.run.world, np.arange(8)
    capacity_j = world.devices[0].battery_j
    assert capacity_j is not None
    first = 2e-6 + 8e-6 * world.streams.uniform("battery.initial", clients)
    view = watched.run.observations.clients(clients, watched.run.clock.now_s, 0, CLOUD)

    drawn_j = watched.events.query("client >= 0").groupby("client")["energy_j"].sum()
    check_promises(watched)
    empty = watched.events.query("kind == 'battery_empty'")
    assert len(empty) == empty["client"].nunique() > 0
    np.testing.assert_allclose(capacity_j * (first - view.battery_level), drawn_j, rtol=1e-9)
    waits = watched.events.query("kind == 'idle'")
    assert (waits["unmet_j"] > 0).any()


@pytest.mark.parametrize("way", ["dedicated", "fifo"])
def test_messages_beside_turns_take_no_joules_of_empty_batteries(tmp_path: Path, way: str) -> None:
    """FL Games' moves reach phones that are off; what these do not give is in no row's joules."""
    local = {"epochs": 1, "batch_size": 16, "learning_rate": 0.1}
    batteries = {"initial": [2e-6, 1e-5], "lowest": 1e-6, "charge_w": 0.0}
    scenario = small(
        algorithm={"name": "fl_games", "local": local},
        population={"batteries": batteries, "access_sharing": way},
    )

    _, run = simulated(scenario, tmp_path)

    events = pd.read_parquet(tmp_path / "events.parquet")
    assert all(run.laws.values()), run.accounts.violations
    taken = events[events["kind"] == "download"].reset_index(drop=True)
    unmet_j = taken["unmet_j"]
    assert (unmet_j > 0).any() and (unmet_j == 0).any()
    # What is left is the idle power of each client, whatever its battery gave.
    idle_w = (taken["energy_j"] - taken["active_j"] + unmet_j) / taken["duration_s"]
    spread_w = idle_w.groupby(taken["actor"].astype(str)).agg(lambda one: one.max() - one.min())
    assert spread_w.max() < 1e-6
    assert (taken["active_j"] >= 0).all()
    assert (events["energy_j"] >= -1e-12).all()


def test_an_aborted_job_is_not_trained_and_leaves_no_memory(tmp_path: Path) -> None:
    """Only rounds whose upload arrives are trained; what was aborted is not in the chain either."""
    scenario = small(
        population={"availability": COMES_AND_GOES, "leaving": "abort"}, stop={"versions": 6}
    )

    _, run = simulated(scenario, tmp_path)

    events = pd.read_parquet(tmp_path / "events.parquet")
    aborted = events.query("kind == 'unavailable'")
    uploads = events.query("kind == 'upload' and bytes > 0")
    assert len(aborted) > 0
    assert run.values.trainer.trained == len(uploads)
