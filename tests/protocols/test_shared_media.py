"""Whole runs over media that clients and edge servers share."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import simfl
from simfl.protocols.clock import Clock
from simfl.system.catalogue import Catalogue
from tests.protocols.test_determinism import ShuffledEnvironment, log_bytes
from tests.small import SEMI_ASYNCHRONOUS, simulated, small

FREE = {"name": "fifo", "channels": 1000}
"""A medium on which nobody waits for anybody, simulated stage by stage all the same."""
TIGHT = {"name": "processor_sharing", "capacity_bps": 2e6}
LOSS = {"probability": 0.25, "timeout_s": 0.05, "attempts_max": 2}
NOISE = {"compute_noise": 0.1, "transfer_noise": 0.1}
ASKING = {"selection": {"name": "power_of_choice", "count": 2, "factor": 2.0}}
GAMES = {"name": "fl_games", "local": {"epochs": 1, "batch_size": 16, "learning_rate": 0.1}}
CRASHES = {"works": {"mean_s": 0.2}, "broken": {"mean_s": 0.05}}
PATIENCE = {"deadline_s": 0.05, "over_selection": 1.5, "late": "carry_over"}
PROTOCOLS = {
    "synchronous": "synchronous",
    "patient": {"name": "synchronous", "patience": PATIENCE},
    "semi_asynchronous": {**SEMI_ASYNCHRONOUS, "concurrency": 2},
    "hierarchical": {"name": "hierarchical", "edge_rounds": 2},
    "asynchronous": "asynchronous",
    "buffered": {"name": "buffered", "buffer": 3},
}


def scenario(protocol, sharing=None, population=(), **changes):
    """Noisy links, shared by clients and by edge servers."""
    media = {"access_sharing": sharing, "backhaul_sharing": sharing} if sharing else {}
    changes = {"stop": {"versions": 6}, **changes}
    return small(
        protocol=PROTOCOLS[protocol] if isinstance(protocol, str) else protocol,
        population={**NOISE, **media, **dict(population)},
        **changes,
    )


def test_messages_beside_turns_share_the_medium(tmp_path):
    """Eight equal clients get everybody's first move at once: eight times as long as one alone."""
    population = {**EQUALS, "access_sharing": "ofdma_equal"}
    equals = small(population=population, data=EQUAL_DATA, algorithm=GAMES, stop={"versions": 1})
    run = simfl.run(equals, tmp_path / "run")

    first = run.events.query("kind == 'download' and start_s == 0")
    alone_s = 8 * first["bytes"] / 1e6
    assert first["client"].tolist() == list(range(8))
    np.testing.assert_allclose(first["duration_s"], 8 * alone_s)
    np.testing.assert_allclose(first["energy_j"], 0.5 * 8 * alone_s)


def test_a_crowd_that_thins_out_makes_room(tmp_path):
    """A client that crashes leaves the medium: the others' messages take less time."""
    way = {"name": "processor_sharing", "capacity_bps": 5e5}
    whole, thinned = (
        simfl.run(
            scenario("synchronous", way, {"transfer_noise": 0.0, **more}, stop={"versions": 1}),
            tmp_path / str(len(more)),
        ).events.query("kind == 'download' and bytes > 0 and round == 0")
        for more in ({}, {"faults": {"clients": {**CRASHES, "works": {"mean_s": 0.5}}}})
    )

    both = whole.merge(thinned, on="client")
    assert 0 < len(both) < len(whole)
    assert (both["duration_s_y"] <= both["duration_s_x"] + 1e-9).all()
    assert (both["duration_s_y"] < 0.9 * both["duration_s_x"]).any()


PLAIN = [(protocol, {}) for protocol in PROTOCOLS]
WITH_ROUNDS = ("synchronous", "patient", "semi_asynchronous", "hierarchical")


@pytest.mark.grid(5)
@pytest.mark.parametrize(
    ("protocol", "changes"), [*PLAIN, *((name, {"decisions": ASKING}) for name in WITH_ROUNDS)]
)
@pytest.mark.parametrize("loss", [None, LOSS], ids=["safe", "lossy"])
def test_without_a_rival_it_is_a_link_of_ones_own(tmp_path, protocol, loss, changes):
    """Stage by stage or booked ahead: the same events, to rounding, and the same rounds.

    Rows that the end of the run cuts know more of their joules than their share of the time.
    """
    lossy = {"message_loss": loss}
    booked = simfl.run(scenario(protocol, None, lossy, **changes), tmp_path / "booked")
    staged = simfl.run(scenario(protocol, FREE, lossy, **changes), tmp_path / "staged")

    columns = ["kind", "actor", "version", "round", "bytes", "start_s", "time_s", "energy_j"]
    order = ["kind", "actor", "round", "start_s"]
    tables = []
    for run in (booked, staged):
        # Media of access points make a flat run read how many edge servers there are, which wait.
        waits = (run.events["kind"] == "idle") & (run.events["energy_j"] == 0.0)
        rows = run.events[(run.events["kind"] != "network") & ~waits].copy()
        rows.loc[rows["cut_by"] == "end", "energy_j"] = np.nan
        tables.append(rows[columns].round(9).sort_values(order, ignore_index=True))
    pd.testing.assert_frame_equal(*tables, rtol=1e-9, atol=2e-9)
    rounds = ["time_s", "version", "bytes", "participants", "staleness", "accuracy"]
    pd.testing.assert_frame_equal(booked.rounds[rounds], staged.rounds[rounds], rtol=1e-9)
    assert staged.manifest["traffic"] == booked.manifest["traffic"]
    for run in (booked, staged):
        assert all(run.manifest["invariants"].values()), run.manifest["violations"]


WAYS = [
    TIGHT,
    {"name": "ofdma_equal"},
    {"name": "throughput_fair"},
    {"name": "fifo"},
    {"name": "max_min", "access_bps": 3e6, "backhaul_bps": 4e6},
]


@pytest.mark.grid(7)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way["name"])
@pytest.mark.parametrize("protocol", list(PROTOCOLS))
def test_under_contention_the_books_balance(tmp_path, protocol, way):
    """Time, joules and bytes are conserved, and sharing makes nothing faster."""
    alone = simfl.run(scenario(protocol, FREE), tmp_path / "alone")
    shared = simfl.run(scenario(protocol, way), tmp_path / "shared")

    assert all(shared.manifest["invariants"].values()), shared.manifest["violations"]
    assert len(shared.rounds) == 6
    assert shared.manifest["horizon_s"] >= alone.manifest["horizon_s"] * (1 - 1e-9)
    events = shared.events
    moves = events["kind"].isin(["download", "upload"])
    assert events.loc[moves, "bytes"].sum() == shared.manifest["bytes"]


EQUALS = {
    "name": "paper",
    "clients": 8,
    "access_bps": [1e6, 1e6],
    "cycles_per_example": [1e7, 1e7],
    "frequency_max_hz": [1e9, 1e9],
    "noise": 0.0,
}
EQUAL_DATA = {"name": "synthetic", "examples": 80, "partition": "iid"}


def test_equal_shares_by_hand(tmp_path):
    """Eight equal clients over one medium: messages take eight times as long as alone."""
    population = {**EQUALS, "access_sharing": "ofdma_equal"}
    equals = small(population=population, data=EQUAL_DATA, stop={"versions": 1})
    run = simfl.run(equals, tmp_path / "run")

    uploads = run.events.query("kind == 'upload'")
    alone_s = 8 * uploads["bytes"] / 1e6
    np.testing.assert_allclose(uploads["duration_s"], 8 * alone_s)
    np.testing.assert_allclose(uploads["energy_j"], 0.5 * 8 * alone_s)


@pytest.mark.parametrize(
    ("way", "duty"), [("ofdma_equal", 1.0), ("throughput_fair", 1 / 8), ("airtime_fair", 1 / 8)]
)
def test_joules_of_a_transfer_that_the_end_cuts(tmp_path, way, duty):
    """Half a watt for as long as the radio has sent by then: always, or in turns of eight."""
    population = {**EQUALS, "access_sharing": way}
    equals = small(population=population, data=EQUAL_DATA, stop={"versions": None, "time_s": 0.004})
    run = simfl.run(equals, tmp_path / "run")

    downloads = run.events.query("kind == 'download'")
    assert len(downloads) == 8 and (downloads["bytes"] == 0).all()
    np.testing.assert_allclose(downloads["energy_j"], 0.5 * duty * 0.004)


def test_parts_of_a_band_by_group(tmp_path):
    """An eighth and a 32nd of the band: bits take 8 and 32 times as long, latency does not.

    The parts fit into the band, so that nobody's depends on who else sends.
    """
    shares = (0.125, 0.03125)
    groups = [
        {"device": "rpi_4b", "link": "wifi5_ac", "count": 4, "band_share": share}
        for share in shares
    ]
    population = {"groups": groups, "transfer_noise": 0.0}
    weighted = {"name": "ofdma_weighted"}
    alone, shared = (
        simfl.run(
            scenario("synchronous", way, population, stop={"versions": 1}), tmp_path / way["name"]
        )
        .events.query("kind == 'upload'")
        .set_index("client")
        .sort_index()
        for way in (FREE, weighted)
    )

    bits_s = 8 * alone["bytes"] / Catalogue().link("wifi5_ac").rate_bps(uplink=True)
    factor = 1 / np.repeat(shares, 4)
    longer_s = shared["duration_s"] - alone["duration_s"]
    np.testing.assert_allclose(longer_s, (factor - 1) * bits_s)


def test_a_cell_for_every_edge_server_and_link(tmp_path):
    """Only clients of one access point that have the same link slow one another down."""
    crowd = scenario("synchronous", TIGHT, {"transfer_noise": 0.0, "edges": 8})

    apart = simfl.run(crowd, tmp_path / "apart").events.query("kind == 'upload'")

    alone_s = 8 * apart["bytes"] / 2e6
    assert (apart["duration_s"] >= alone_s).all()
    assert (apart["duration_s"] < 1.5 * alone_s + 0.1).all()


def test_edge_servers_share_the_backhaul(tmp_path):
    """Two edge servers report at once over one pipe: it takes longer than over two."""
    protocol = {"backhaul_sharing": {"name": "processor_sharing", "capacity_bps": 1e6}}
    alone = simfl.run(scenario("hierarchical"), tmp_path / "alone")
    shared = simfl.run(scenario("hierarchical", None, protocol), tmp_path / "shared")

    took_s = [
        run.events[run.events["actor"].str.startswith("edge") & (run.events["kind"] == "upload")]
        for run in (alone, shared)
    ]
    assert (took_s[1]["duration_s"].to_numpy() > 1.5 * took_s[0]["duration_s"].to_numpy()).all()


@pytest.mark.parametrize("protocol", list(PROTOCOLS))
def test_the_log_is_the_same_in_any_order_of_simultaneous_events(tmp_path, protocol):
    """Byte for byte, with equal clients whose messages begin and end together."""
    population = {**EQUALS, "edges": 2, "access_sharing": "fifo", "backhaul_sharing": "fifo"}
    twins = small(
        population=population,
        data=EQUAL_DATA,
        dtype="float32",
        protocol=PROTOCOLS[protocol],
        stop={"versions": 4},
    )
    found = set()
    for order in range(3):
        folder = tmp_path / str(order)
        folder.mkdir()
        simulated(twins, folder, clock=Clock(ShuffledEnvironment(order)))
        found.add(log_bytes(folder))

    assert len(found) == 1


@pytest.mark.parametrize("limit_s", [0.003, 0.05, 0.2])
def test_what_is_under_way_is_cut_at_the_horizon(tmp_path, limit_s):
    """A message under way keeps its seconds and joules so far, and its bytes are in flight."""
    stop = {"versions": None, "time_s": limit_s}
    run = simfl.run(scenario("semi_asynchronous", TIGHT, stop=stop), tmp_path / "run")

    assert all(run.manifest["invariants"].values()), run.manifest["violations"]
    cut = run.events[run.events["cut_by"] == "end"]
    assert (cut["time_s"] == limit_s).all() and (cut["bytes"] == 0).all()
    # While radios wake up no bits flow.
    in_flight = run.manifest["traffic"]["bytes_in_flight"]
    assert (in_flight > 0) == (cut["attempts"].sum() > 0)
    assert limit_s < 0.2 or in_flight > 0


def test_stragglers_of_a_closed_round_are_late_and_come_back(tmp_path):
    """Uploads after the close are `late` rows, count in the next round, and the client is asked."""
    population = {"access_sharing": {"name": "fifo"}}
    run = simfl.run(scenario("patient", None, population), tmp_path / "run")

    late = run.events.query("kind == 'late'")
    assert len(late) and (late["value"] > 0).all()
    assert (run.rounds["staleness"] > 0).any()
    client_rounds = run.events.query("kind == 'upload'").groupby("client").size()
    assert client_rounds.max() > 1
