"""Faults over media without rivals: what links of one's own would have made of them."""

from __future__ import annotations

import pandas as pd
import pytest

import simfl
from simfl.protocols.clock import Clock
from tests.protocols.test_determinism import ShuffledEnvironment, log_bytes
from tests.protocols.test_shared_media import (
    CRASHES,
    FREE,
    GAMES,
    LOSS,
    PROTOCOLS,
    TIGHT,
    scenario,
)
from tests.small import simulated

TROUBLED = {
    "leaving": "abort",
    "availability": {
        "name": "renewal",
        "present": {"mean_s": 0.2, "law": "exponential"},
        "absent": {"mean_s": 0.1, "law": "exponential"},
    },
    "faults": {"clients": CRASHES},
}


@pytest.mark.parametrize("leaving", ["abort", "pause"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_clients_that_leave_or_crash_in_mid_turn(tmp_path, protocol, leaving):
    """Their turns end or pause as those that are booked ahead do, with the same rows, to rounding.

    But for which of several waiting slots of an asynchronous server a client that comes falls to,
    and for the joules of messages that are cut: booked ahead, they are pro rata of the whole.
    """
    left = same_rows(tmp_path, protocol, {**TROUBLED, "leaving": leaving})

    assert {"crash", "unavailable"} & set(left["kind"])
    moves = left["kind"].isin(["download", "upload"])
    assert (moves & (left["bytes"] == 0)).any()


BATTERIES = {
    "initial": [3e-6, 6e-6],
    "lowest": 1e-6,
    "charge_w": 0.5,
    "plug_in_s": 0.0,
    "unplug_s": 43200.0,
}
TIMING = {"name": "none", "local": GAMES["local"]}
SERVERS_CRASH = {
    "edge_servers": {"works": {"mean_s": 0.5}, "broken": {"mean_s": 0.1}},
    "cloud_link": {"works": {"mean_s": 0.2}, "broken": {"mean_s": 0.05}},
}


@pytest.mark.parametrize("loss", [None, LOSS], ids=["safe", "lossy"])
@pytest.mark.parametrize("protocol", ["hierarchical", "semi_asynchronous"])
def test_servers_that_crash_and_links_that_are_cut(tmp_path, protocol, loss):
    """What they lose, send again and wait for is the same as with links of their own."""
    left = same_rows(tmp_path, protocol, {"faults": SERVERS_CRASH, "message_loss": loss})

    crashes = left.query("kind == 'crash'")["detail"]
    assert set(crashes) == {'{"what": "edge_server"}', '{"what": "cloud_link"}'}
    lost = left[left["lost_bytes"] > 0]
    assert lost["client"].isna().any() and lost["client"].notna().any()


@pytest.mark.parametrize("loss", [None, LOSS], ids=["safe", "lossy"])
@pytest.mark.parametrize("deadline_s", [None, 0.01])
def test_messages_beside_turns(tmp_path, deadline_s, loss):
    """FL Games' moves reach clients, and stragglers after their turns, as over their own links."""
    protocol = {"name": "synchronous", "patience": {"deadline_s": deadline_s}}
    left = same_rows(tmp_path, protocol, {"message_loss": loss}, algorithm=GAMES)

    assert (left["kind"] == "download").sum() > 8
    assert ("late" in set(left["kind"])) == (deadline_s is not None)


@pytest.mark.parametrize("protocol", ["synchronous", "hierarchical", "semi_asynchronous"])
def test_faults_of_a_moment_in_any_order(tmp_path, protocol):
    """Byte for byte, where clients pause, run empty and crash, and so do servers and links."""
    faults = {"clients": CRASHES, **SERVERS_CRASH}
    trouble = {**TROUBLED, "leaving": "pause", "faults": faults, "batteries": BATTERIES}
    run = scenario(protocol, TIGHT, trouble, algorithm=TIMING)
    found = set()
    for order in range(3):
        folder = tmp_path / str(order)
        folder.mkdir()
        simulated(run, folder, clock=Clock(ShuffledEnvironment(order)))
        found.add(log_bytes(folder))

    kinds = set(pd.read_parquet(folder / "events.parquet")["kind"])
    assert len(found) == 1
    assert {"unavailable", "crash", "battery_empty"} <= kinds


def same_rows(tmp_path, protocol, population, **changes):
    """The rows of a run over links of their own, which are those over a medium without rivals."""
    tables = []
    for way in (None, FREE):
        run = simfl.run(scenario(protocol, way, population, **changes), tmp_path / str(way))
        assert all(run.manifest["invariants"].values()), run.manifest["violations"]
        # Media of access points make a flat run read how many edge servers there are, which wait.
        waits = (run.events["kind"] == "idle") & (run.events["energy_j"] == 0.0)
        tables.append(run.events[~run.events["kind"].isin(["network", "select"]) & ~waits])

    numbers = ["start_s", "time_s", "energy_j", "bytes"]
    order = ["actor", "kind", "round", "start_s", "time_s"]
    broken = [one["kind"].isin(["download", "upload"]) & (one["bytes"] == 0) for one in tables]
    left, right = (
        table.assign(**{name: table[name].round(9) for name in ("start_s", "time_s")})
        .assign(energy_j=table["energy_j"].mask(off))
        .query("cut_by != 'end'")
        .sort_values(order, ignore_index=True)
        for table, off in zip(tables, broken, strict=True)
    )
    pd.testing.assert_frame_equal(left[order], right[order], atol=2e-9)
    pd.testing.assert_frame_equal(left[numbers], right[numbers], rtol=1e-7, atol=2e-9)
    return left
