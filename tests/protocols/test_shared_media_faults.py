"""Faults by hand, over media that others use at the same time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import simfl
from tests.small import small

WATTS = 0.5
PAIR = {
    "name": "paper",
    "clients": 2,
    "access_bps": [1e6, 1e6],
    "cycles_per_example": [1e7, 1e7],
    "frequency_max_hz": [1e9, 1e9],
    "power_receive_w": WATTS,
    "noise": 0.0,
    "leaving": "pause",
}
DATA = {"name": "synthetic", "examples": 20, "partition": "iid"}
SIZE_BYTES = 1112  # of the small model
ALONE_S = 8 * SIZE_BYTES / 1e6


def rounds(
    folder: Path, way: Any, away: tuple[Any, float, float | None], **changes: Any
) -> pd.DataFrame:
    """The rows of one round of two equal clients, one or both of which are away for some time."""
    who, from_s, back_s = away
    absence = {
        "name": "tests.protocols.availabilities:Away",
        "clients": np.atleast_1d(who).tolist(),
        "from_s": from_s,
        "back_s": back_s,
    }
    population = {**PAIR, "access_sharing": way, "availability": absence}
    changes = {"stop": {"versions": 1}, **changes}
    run = simfl.run(small(population=population, data=DATA, **changes), folder)
    assert all(run.manifest["invariants"].values()), run.manifest["violations"]
    return run.events


def downloads(events: pd.DataFrame) -> pd.DataFrame:
    """The downloads of clients 0 and 1."""
    return events.query("kind == 'download'").sort_values("client")


def test_half_of_a_download_is_kept_and_the_rival_speeds_up(tmp_path: Path) -> None:
    """Both have half of it when client 1 goes away; the other half takes each half the time alone.

    In units of a download alone: client 0 has its own at 1.5, client 1, back at 4, at 4.5. Radios
    draw their watts for 1.5 of these, and nothing in the pause.
    """
    events = rounds(tmp_path / "run", "ofdma_equal", (1, ALONE_S, 4 * ALONE_S))

    rows = downloads(events)
    np.testing.assert_allclose(rows["time_s"], [1.5 * ALONE_S, 4.5 * ALONE_S])
    np.testing.assert_allclose(rows["energy_j"], WATTS * 1.5 * ALONE_S)
    (pause,) = events.query("kind == 'unavailable'").itertuples()
    assert (pause.client, pause.time_s) == (1, pytest.approx(ALONE_S))
    assert pause.value == pytest.approx(3 * ALONE_S)
    assert pause.detail == '{"stage": "download", "then": "goes_on"}'


def test_who_comes_back_finds_a_queue(tmp_path: Path) -> None:
    """Client 0 goes away at half its download, and is back while client 1 has the channel."""
    events = rounds(tmp_path / "run", "fifo", (0, 0.5 * ALONE_S, 1.2 * ALONE_S))

    rows = downloads(events)
    np.testing.assert_allclose(rows["time_s"], [2.0 * ALONE_S, 1.5 * ALONE_S])
    np.testing.assert_allclose(rows["energy_j"], WATTS * ALONE_S)


def test_who_stays_away_loses_its_turn(tmp_path: Path) -> None:
    """Half a download is lost, at half the joules; the round goes on with the other client."""
    events = rounds(tmp_path / "run", "ofdma_equal", (1, ALONE_S, None))

    whole, lost = downloads(events).itertuples()
    assert (whole.bytes, lost.bytes) == (SIZE_BYTES, 0)
    assert lost.lost_bytes == SIZE_BYTES
    assert whole.time_s == pytest.approx(1.5 * ALONE_S)
    assert lost.time_s == pytest.approx(ALONE_S)
    assert lost.energy_j == pytest.approx(WATTS * ALONE_S)
    assert events.query("kind == 'upload'")["client"].tolist() == [0]
    (left,) = events.query("kind == 'unavailable'")["detail"]
    assert left == '{"stage": "download", "then": "ends"}'


def test_the_end_of_the_run_finds_a_client_away(tmp_path: Path) -> None:
    """Its download has cost what it had when it went away, and is in flight."""
    stop = {"versions": None, "time_s": 1.4 * ALONE_S}
    events = rounds(tmp_path / "run", "ofdma_equal", (1, ALONE_S, 4 * ALONE_S), stop=stop)

    rows = downloads(events)
    np.testing.assert_allclose(rows["time_s"], 1.4 * ALONE_S)
    np.testing.assert_allclose(rows["energy_j"], [WATTS * 1.4 * ALONE_S, WATTS * ALONE_S])
    assert (rows["bytes"] == 0).all()


def test_beyond_the_deadline_nobody_waits_for_who_is_away(tmp_path: Path) -> None:
    """One client crosses the deadline, the other one is away: the first update closes the round."""
    protocol = {"name": "synchronous", "patience": {"deadline_s": 1.2 * ALONE_S}}
    away = (1, ALONE_S, 400 * ALONE_S)
    events = rounds(tmp_path / "run", "ofdma_equal", away, protocol=protocol)

    upload = events.query("kind == 'upload'")
    assert upload["client"].tolist() == [0]
    assert events["time_s"].max() == pytest.approx(float(upload["time_s"].iloc[0]), abs=0.01)


def test_a_deadline_that_finds_nobody_closes_the_round(tmp_path: Path) -> None:
    """Both are away by then, and late when they are back: the next round is theirs again."""
    deadline_s = 1.2 * ALONE_S
    protocol = {"name": "synchronous", "patience": {"deadline_s": deadline_s}}
    away = ([0, 1], ALONE_S, 40 * ALONE_S)
    events = rounds(tmp_path / "run", "ofdma_equal", away, protocol=protocol)

    late = events.query("kind == 'late'")
    assert late["client"].tolist() == [0, 1]
    np.testing.assert_allclose(late["value"], late["time_s"] - deadline_s)
    assert (events["kind"] == "select").sum() == 2


def test_a_link_that_is_cut_leaves_the_pipe_to_the_others(tmp_path: Path) -> None:
    """Two edge servers halve a pipe until the link of one is cut, at t; later it sends alone.

    In units of a message alone: the other one has its own at 1 + t/2. The network has spent half of
    t on the message that was cut, and all of it on the two others.
    """
    alone_s = 8 * SIZE_BYTES / 1e4
    population = {
        **PAIR,
        "edges": 2,
        "backhaul_bps": 1e4,
        "backhaul_j_per_byte": 1e-3,
        "backhaul_sharing": {"name": "processor_sharing", "capacity_bps": 1e4},
        "faults": {"cloud_link": {"works": {"mean_s": 2.0}, "broken": {"mean_s": 2.0}}},
    }
    protocol = {"name": "hierarchical", "edge_rounds": 1}
    stop = {"versions": None, "time_s": 3.0}
    scenario = small(population=population, data=DATA, protocol=protocol, stop=stop, seed=2)
    events = simfl.run(scenario, tmp_path / "run").events

    messages = events[events["client"].isna() & (events["kind"] == "download")]
    cut, other, again = messages.itertuples()
    outage = events.query("kind == 'crash' and actor == 'edge-0'").iloc[0]
    assert (cut.actor, other.actor, again.actor) == ("edge-0", "edge-1", "edge-0")
    assert cut.bytes == 0 and cut.lost_bytes == SIZE_BYTES
    assert cut.time_s == outage["time_s"] < 2 * alone_s
    assert other.time_s == pytest.approx(alone_s + cut.time_s / 2)
    assert again.start_s == pytest.approx(cut.time_s + outage["value"])
    assert again.duration_s == pytest.approx(alone_s)
    network_j = events.query("kind == 'network' and start_s < 2")["energy_j"]
    share = np.array([cut.time_s / 2 / alone_s, 1.0, 1.0])
    np.testing.assert_allclose(network_j, 1e-3 * SIZE_BYTES * share)
