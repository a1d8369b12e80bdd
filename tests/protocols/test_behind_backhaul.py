"""Whole runs of flat protocols whose server lies behind the backhaul."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simfl
from simfl.protocols.clock import Clock
from simfl.runs.runfolder import LoadedRun
from simfl.scenario.yaml_source.error import ScenarioError
from simfl.system.server_id import CLOUD
from tests.protocols.test_determinism import ShuffledEnvironment, log_bytes
from tests.protocols.test_shared_media import CRASHES, EQUAL_DATA, EQUALS, LOSS, scenario
from tests.small import simulated, small

LINKS = {
    "radio": """
kind: link
link: {name: fixed_rate, uplink_bps: 2e6, downlink_bps: 4e6, rtt_s: 0.02, jitter_s: 0,
       power_transmit_w: 2, power_receive_w: 1.5, power_idle_w: 0.5,
       promotion_s: 0.5, power_promotion_w: 1.5, tail_s: 1.25, power_tail_w: 1.0}
""",
    "wire": """
kind: link
link: {name: fixed_rate, uplink_bps: 1e6, downlink_bps: 1e9, rtt_s: 0.06, jitter_s: 0,
       power_transmit_w: 3, power_receive_w: 3, power_idle_w: 1, energy_j_per_byte: 3e-7}
""",
}
PIPE = {"name": "processor_sharing", "capacity_bps": 1e6}
FAIR = {"name": "throughput_fair"}
BOTH = {"backhaul_sharing": PIPE, "access_sharing": FAIR}
WAYS = [
    {},
    {"backhaul_sharing": PIPE},
    {"backhaul_sharing": "fifo", "access_sharing": "fifo"},
    {"access_sharing": "throughput_fair"},
    {"access_sharing": "ofdma_equal", "backhaul_sharing": PIPE},
    {"access_sharing": {"name": "max_min", "access_bps": 3e6, "backhaul_bps": 4e6}},
    {"backhaul_sharing": {"name": "max_min", "access_bps": 1.0, "backhaul_bps": 1e6}},
]


def behind(folder: Path, population: dict[str, Any], **changes: Any) -> Any:
    """Raspberry Pis whose server lies behind a wire, which is slower up than their radio."""
    for name, text in LINKS.items():
        (folder / f"{name}.yaml").write_text(text)
    groups = [{"device": "rpi_4b", "link": "radio", "share": 1.0}]
    own = {"profiles": [str(folder)], "groups": groups, "backhaul": "wire", "speed_spread": 0.3}
    return small(population={**own, "server_behind": "backhaul", **population}, **changes)


def test_a_run_by_hand(tmp_path: Path) -> None:
    """Every message's seconds and joules, and the network's, from the run folder."""
    run = simfl.run(behind(tmp_path, {}), tmp_path / "run")

    assert set(run.hardware) >= {"backhaul", "cloud_server"}
    assert "edge_server" not in run.hardware
    size = run.events["bytes"].max()
    up, down = (run.events.query(f"kind == '{kind}'") for kind in ("upload", "download"))
    first = down["round"] == 0
    for rows, slower_bps, own_bps, watts in ((up, 1e6, 2e6, 1.5), (down, 4e6, 4e6, 1.0)):
        seconds, on_air_s = 0.01 + 0.03 + 8 * size / slower_bps, 0.01 + 8 * size / own_bps
        wakes_s = np.where(rows["duration_s"] > seconds + 0.25, 0.5, 0.0)
        np.testing.assert_allclose(rows["duration_s"], seconds + wakes_s, rtol=1e-9)
        np.testing.assert_allclose(rows["active_j"], watts * on_air_s + wakes_s, rtol=1e-9)
    assert (down[first]["duration_s"] > 0.5).all()
    network_j = run.events.query("kind == 'network'")["energy_j"].sum()
    assert network_j == pytest.approx(3e-7 * (len(up) + len(down)) * size, rel=1e-9)


def test_a_what_if_over_the_backhaul_changes_the_answer(tmp_path: Path) -> None:
    """A slower one: later, for more joules; no effect if the server is at the access point."""

    def run(name: str, server: str, backhaul: str) -> LoadedRun:
        return simfl.run(
            behind(tmp_path, {"server_behind": server, "backhaul": backhaul}), tmp_path / name
        )

    fast, slow = (run(one, "backhaul", one) for one in ("wan_edge_cloud", "wire"))
    near = run("near", "access_point", "wan_edge_cloud")
    unread = run("unread", "access_point", "wire")

    assert near.manifest["horizon_s"] < fast.manifest["horizon_s"] < slow.manifest["horizon_s"]
    assert near.manifest["energy_j"] < fast.manifest["energy_j"] < slow.manifest["energy_j"]
    told = {
        record["message"].split(":")[0]
        for each in (fast, slow)
        for record in each.manifest["warnings"]
        if record["kind"] == "unread_keys"
    }
    assert not any("backhaul" in message for message in told)
    for column in ("time_s", "energy_j"):
        np.testing.assert_array_equal(near.events[column], unread.events[column])


@pytest.mark.grid(5)
@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("protocol", ["synchronous", "asynchronous", "patient"])
def test_the_books_balance(tmp_path: Path, protocol: str, way: dict[str, Any]) -> None:
    """Whoever shares what: nothing is faster than over two links of one's own."""
    trouble = {"message_loss": LOSS, "faults": {"clients": CRASHES}, "server_behind": "backhaul"}

    run = simfl.run(scenario(protocol, None, {**trouble, **way}), tmp_path / "run")

    assert all(run.manifest["invariants"].values()), run.manifest["violations"]
    assert len(run.rounds) == 6
    assert run.events.query("kind == 'network'")["energy_j"].sum() > 0


def test_equal_shares_of_a_backhaul_by_hand(tmp_path: Path) -> None:
    """Eight equal clients with 1 Mbit/s each behind 2: a quarter each, a quarter of the time."""
    shares = {"backhaul_sharing": {**PIPE, "capacity_bps": 2e6}, "server_behind": "backhaul"}
    equals = small(population={**EQUALS, **shares}, data=EQUAL_DATA, stop={"versions": 1})
    uploads = simfl.run(equals, tmp_path / "run").events.query("kind == 'upload'")

    alone_s = 8 * uploads["bytes"] / 1e6
    np.testing.assert_allclose(uploads["duration_s"], 4 * alone_s)
    np.testing.assert_allclose(uploads["energy_j"], 0.5 * alone_s)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_the_oracle_knows_what_lies_behind(tmp_path: Path, way: dict[str, Any]) -> None:
    """What it expects after three rounds is the fourth."""
    everybody = {"estimator": "oracle", "selection": {"name": "virtual_queue", "share": 1.0}}
    timing = {"algorithm": {"name": "none", "local": {"steps": 2, "batch_size": 2}}}
    views = []
    for versions in (3, 4):
        stop = {"versions": versions}
        one = behind(tmp_path, way, decisions=everybody, stop=stop, **timing)
        run = simulated(one)[1]
        views.append(run.observations.clients(np.arange(8), run.clock.now_s, 9, CLOUD))
    expected, found = views

    np.testing.assert_allclose(expected.estimated_duration_s, found.last_duration_s, rtol=1e-9)


@pytest.mark.parametrize("protocol", ["synchronous", "asynchronous", "buffered"])
def test_the_log_is_the_same_in_any_order(tmp_path: Path, protocol: str) -> None:
    """Byte for byte, with equal clients whose messages begin and end together."""
    queues = {"edges": 2, "access_sharing": "fifo", "backhaul_sharing": "fifo"}
    population = {**EQUALS, **queues, "server_behind": "backhaul"}
    twins = small(
        population=population,
        data=EQUAL_DATA,
        dtype="float32",
        protocol={"name": "buffered", "buffer": 3} if protocol == "buffered" else protocol,
        stop={"versions": 4},
    )
    found = set()
    for order in range(3):
        folder = tmp_path / str(order)
        folder.mkdir()
        simulated(twins, folder, clock=Clock(ShuffledEnvironment(order)))
        found.add(log_bytes(folder))

    assert len(found) == 1


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        ({"backhaul_sharing": "throughput_fair"}, "divides a radio's air"),
        ({**WAYS[5], "backhaul_sharing": "fifo"}, "a second rule for the backhaul"),
    ],
)
def test_rules_that_do_not_go_together_are_refused(way: dict[str, Any], reason: str) -> None:
    """At the population, in one line."""
    one = small(population={**way, "server_behind": "backhaul"})

    with pytest.raises(ScenarioError, match=rf"population.*{reason}"):
        simfl.run(one)


def test_a_radio_is_on_air_for_its_own_bits_however_the_links_are_shared(tmp_path: Path) -> None:
    """Clients' joules at work do not depend on how the same network is written."""
    timing = {"name": "none", "local": {"epochs": 1, "batch_size": 16}}
    found_j = {}
    for number, way in enumerate([{}, {"backhaul_sharing": PIPE}, {"access_sharing": FAIR}, BOTH]):
        one = behind(tmp_path, way, algorithm=timing, stop={"versions": 1})
        messages = simfl.run(one, tmp_path / str(number)).events.query("attempts > 0")
        found_j[number] = messages.groupby("kind")["active_j"].sum()

    for joules in found_j.values():
        np.testing.assert_allclose(joules, found_j[0], rtol=1e-9)
