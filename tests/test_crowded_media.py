"""Media that could not have carried what was sent, and bytes of messages over two links."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import simfl
from simfl.common.notices import Notice
from simfl.runs.runfolder import LoadedRun
from simfl.study.rows import row
from simfl.system.catalogue import Catalogue
from tests.small import small

WIRED = [{"device": "rpi_4b", "link": "ethernet_1g", "share": 1.0}]
ON_WIFI = [{"device": "rpi_4b", "link": "wifi5_ac", "share": 1.0}]
ONE_ROOM = {"clients": 80, "edges": 1, "groups": ON_WIFI}
TIMING = {"name": "none", "local": {"steps": 1, "batch_size": 16}}
MESSAGE_BYTES = 4 * (64 * 512 + 512 + 512 * 10 + 10)
BEHIND: dict[str, Any] = {
    "clients": 40,
    "edges": 1,
    "groups": WIRED,
    "server_behind": "backhaul",
}


def ran(folder: Path, population: dict[str, Any], **changes: Any) -> LoadedRun:
    """Three versions, timing only, of a network with 160 KB."""
    sections: dict[str, Any] = {
        "model": {"name": "mlp", "hidden": [512]},
        "algorithm": TIMING,
        "stop": {"versions": 3},
        **changes,
    }
    return simfl.run(small(population=population, **sections), folder)


def told(run: LoadedRun, kind: str) -> list[Notice]:
    """The run's warnings of one kind."""
    return [one for one in run.warnings if one.kind == kind]


@pytest.mark.parametrize(
    ("population", "warned"),
    [
        ({}, True),
        ({"message_loss": {"probability": 0.3, "timeout_s": 0.0}}, True),
        ({"clients": 4}, False),
        ({"backhaul_sharing": {"name": "processor_sharing", "capacity_bps": 5e9}}, False),
        ({"backhaul_sharing": "fifo"}, False),
        ({"access_sharing": {"name": "max_min", "backhaul_bps": 5e9}}, False),
        ({"access_sharing": {"name": "max_min", "access_bps": 1e9}}, True),
        ({"server_behind": "access_point"}, False),
    ],
)
def test_a_backhaul_for_each_client_of_an_access_point_is_told(
    population: dict[str, Any], warned: bool, tmp_path: Path
) -> None:
    """As far as one line would be busy, in the busier direction, with all that was sent."""
    run = ran(tmp_path / "run", {**BEHIND, **population})

    events = run.events
    sent = events["bytes"] + events["lost_bytes"].fillna(0)
    rates = Catalogue([]).link("wan_edge_cloud")
    busy_s = max(
        8 * sent[events["kind"] == kind].sum() / rates.rate_bps(kind == "upload")
        for kind in ("upload", "download")
    )
    end_s = run.manifest["horizon_s"]
    assert busy_s > 0.5 * end_s or not warned
    found = told(run, "crowded_backhaul")
    assert [one.count for one in found] == [1] * warned
    for one in found:
        assert one.message.startswith("40 clients behind one access point")
        assert f"busy for {busy_s:.3g} s of the run's {end_s:.3g} s" in one.message


@pytest.mark.parametrize(
    ("sharing", "crowded"),
    [
        ({"name": "fifo", "channels": 1}, False),
        ({"name": "fifo", "channels": 1000}, True),
        ({"name": "processor_sharing", "capacity_bps": 8e7}, False),
        ({"name": "processor_sharing", "capacity_bps": 1e12}, True),
        ({"name": "max_min", "access_bps": 8e7}, False),
        ({"name": "max_min", "backhaul_bps": 1e12}, True),
        ("ofdma_equal", False),
        ("airtime_fair", False),
    ],
)
def test_a_capacity_that_shares_nothing_is_told(
    sharing: Any, crowded: bool, tmp_path: Path
) -> None:
    """In one direction the channel would be on air for longer than the run."""
    run = ran(tmp_path / "run", {**ONE_ROOM, "access_sharing": sharing})

    clients, end_s = run.clients, run.manifest["horizon_s"]
    airtime_s = max(
        (8 * clients["bytes_sent"] / clients["uplink_bps"]).sum(),
        (8 * clients["bytes_received"] / clients["downlink_bps"]).sum(),
    )
    found = told(run, "crowded_channel")
    assert [one.count for one in found] == [1] * crowded
    if crowded:
        assert f"with {sharing['name']}: their messages" in found[0].message
        assert f"on air for {airtime_s:.3g} s of the run's {end_s:.3g} s" in found[0].message
        assert airtime_s > end_s


@pytest.mark.parametrize(
    ("section", "key"),
    [("access_sharing", "capacity_bps"), ("backhaul_sharing", "capacity_bps")],
)
@pytest.mark.parametrize(("capacity_bps", "warned"), [(100.0, True), (1e8, False), (5.12e5, False)])
def test_a_capacity_in_megabits_is_told(
    section: str, key: str, capacity_bps: float, warned: bool, tmp_path: Path
) -> None:
    """A thousandth of what one sender has alone is another unit."""
    sharing = {"name": "processor_sharing", key: capacity_bps}
    run = ran(tmp_path / "run", {**BEHIND, "clients": 2, "edges": 1, section: sharing})

    found = told(run, "implausible_figures")
    assert [
        f"population.{section}.{key}: found 100, far below" in one.message for one in found
    ] == [True] * warned


@pytest.mark.parametrize(
    ("protocol", "server_behind", "links"),
    [
        ("synchronous", "backhaul", 2),
        ("asynchronous", "backhaul", 2),
        ("synchronous", "access_point", 1),
        ("hierarchical", "access_point", 1),
    ],
)
def test_bytes_count_on_every_link_that_a_message_crosses(
    protocol: str, server_behind: str, links: int, tmp_path: Path
) -> None:
    """In totals, by version and at the end; rows have the message once, and so do clients."""
    run = ran(
        tmp_path / "run",
        {"clients": 6, "groups": WIRED, "server_behind": server_behind},
        protocol=protocol,
    )

    events, manifest = run.events, run.manifest
    moved = events[events["kind"].isin(["upload", "download"])]
    of_clients = moved[moved["client"].notna()]
    assert of_clients["bytes"].sum() == run.clients[["bytes_received", "bytes_sent"]].sum().sum()
    assert manifest["bytes"] == moved["bytes"].sum() + (links - 1) * of_clients["bytes"].sum()
    assert manifest["invariants"]["bytes add up"] and manifest["invariants"]["joules add up"]
    for one in run.rounds.itertuples():
        until = moved[moved["time_s"] <= one.time_s]
        until_clients = until[until["client"].notna()]
        assert one.bytes == until["bytes"].sum() + (links - 1) * until_clients["bytes"].sum()
    over = of_clients if links == 2 else moved[moved["client"].isna()]
    assert manifest["backhaul_bytes"] == over["bytes"].sum() == row(run, {})["backhaul_bytes"]
    assert (over["bytes"].sum() > 0) == (protocol == "hierarchical" or links == 2)


def test_a_limit_of_bytes_counts_both_links(tmp_path: Path) -> None:
    """The same limit ends a run behind a backhaul after half as many versions."""
    versions = [
        ran(
            tmp_path / behind,
            {"clients": 4, "groups": WIRED, "server_behind": behind},
            stop={"versions": None, "bytes": 8 * 4 * 2 * MESSAGE_BYTES},
        ).manifest["counts"]["versions"]
        for behind in ("access_point", "backhaul")
    ]

    assert versions == [8, 4]
