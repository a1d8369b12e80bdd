"""Promotions and tails in whole runs, as computed on paper."""

from __future__ import annotations

from pathlib import Path

import pytest

import simfl
from simfl.runs.runfolder import LoadedRun
from tests.protocols.test_hand_timeline import PROFILES, SCENARIO

SLEEPY = """
kind: link
link: {name: fixed_rate, uplink_bps: 128, downlink_bps: 256, rtt_s: 0, jitter_s: 0,
       power_transmit_w: 2, power_receive_w: 1.5, power_idle_w: 0.5,
       promotion_s: 0.5, power_promotion_w: 1.5, tail_s: 1.25, power_tail_w: 1.0}
"""
WIRELESS = PROFILES["wire"].replace("rtt_s: 0,", "rtt_s: 0, tail_s: 4.5, power_tail_w: 2,")
FLAT = SCENARIO.replace(
    "{name: semi_asynchronous, edge_rounds: 1, concurrency: 1}", "{name: synchronous}"
)
SHARED = FLAT.replace(
    "  edge_server:", "  access_sharing: {name: fifo, channels: 9}\n  edge_server:"
)


def run(folder: Path, scenario: str, **profiles: str) -> LoadedRun:
    """A run of the hand-computed scenario with other links."""
    (folder / "profiles").mkdir()
    for name, text in {**PROFILES, **profiles}.items():
        (folder / "profiles" / f"{name}.yaml").write_text(text)
    (folder / "scenario.yaml").write_text(scenario)
    return simfl.run(folder / "scenario.yaml", folder / "run")


def states(found: LoadedRun, actor: str) -> list[tuple[str, float, float, float]]:
    """What a device did: kind, from, to, joules."""
    timeline = found.timeline(actor)
    columns = ["kind", "start_s", "time_s", "energy_j"]
    return list(timeline[columns].itertuples(index=False, name=None))


def approx(rows: list[tuple[str, float, float, float]]) -> list[tuple[str, float, float, object]]:
    """The same, with joules up to rounding."""
    return [(*row[:3], pytest.approx(row[3], rel=1e-12)) for row in rows]


FAST = [
    ("download", 0.0, 1.0, 2.5),
    ("compute", 1.0, 2.0, 2.6),
    ("upload", 2.0, 3.0, 3.0),
    ("tail", 3.0, 4.25, 2.5),
    ("idle", 4.25, 5.25, 1.5),
    ("download", 5.25, 6.25, 2.5),
    ("compute", 6.25, 7.25, 2.6),
    ("upload", 7.25, 8.25, 3.0),
    ("tail", 8.25, 9.5, 2.5),
    ("idle", 9.5, 10.0, 0.75),
]
SLOW = [
    ("download", 0.0, 1.0, 2.5),
    ("compute", 1.0, 3.0, 4.65),
    ("upload", 3.0, 4.5, 4.25),
    ("tail", 4.5, 5.25, 1.5),
    ("download", 5.25, 5.75, 1.25),
    ("compute", 5.75, 7.75, 4.65),
    ("upload", 7.75, 9.25, 4.25),
    ("tail", 9.25, 10.0, 1.5),
]


@pytest.mark.parametrize("scenario", [FLAT, SHARED], ids=["links of their own", "shared"])
def test_promotions_and_tails_by_hand(tmp_path: Path, scenario: str) -> None:
    """Two clients, two rounds, with a promotion of 0.5 s and a tail of 1.25 s.

    A client idles at 1.5 W; its radio draws 1 W more while it wakes up, 1 W receiving, 1.5 W
    sending and 0.5 W in its tail. The model takes 0.5 s down and 1 s up.

    The first download wakes the radio: 1 s, 1.5 + 0.5 + 0.5 = 2.5 J. Client 0 computes for 1 s,
    2.1 J and 0.5 J of tail, and finds its radio awake: 1 s, 1.5 + 1.5 = 3 J. Client 1 computes for
    2 s, 4.025 J and the whole tail, 0.625 J: its upload needs a promotion, 1.5 s, 2.25 + 0.5 + 1.5
    = 4.25 J. The cloud has aggregated 0.75 s later, at 5.25 s. By then client 0's tail is over (at
    4.25 s), client 1's is not: it needs no promotion, and its tail is cut short at 0.75 s, 1.5 J.
    In the end the run cuts it short again.
    """
    found = run(tmp_path, scenario, radio=SLEEPY)

    assert states(found, "client-0") == approx(FAST)
    assert states(found, "client-1") == approx(SLOW)
    assert all(found.manifest["invariants"].values()), found.manifest["violations"]
    # When the first version is out, client 1 is in the midst of a tail: 12.1 J, 12.9 J and the
    # cloud's 4.5 s at 10 W and 0.75 s at 30 W.
    assert found.rounds["energy_j"].tolist() == pytest.approx([92.5, 178.0])
    clients = found.clients
    assert clients["tail_s"].tolist() == [2.5, 1.5]
    assert clients["tail_j"].tolist() == pytest.approx([5.0, 3.0])


def test_an_edge_servers_radio_by_hand(tmp_path: Path) -> None:
    """A backhaul with a tail of 4.5 s at 1 W beyond 11 W of idling; it continues during work.

    The first download ends at 1 s. Until 5 s the edge server waits for its clients, in the tail;
    0.5 s of it are left when it aggregates: 23.75 J. Its upload's tail is cut off by the cloud's
    next dispatch at 7.25 s, and by the end.
    """
    found = run(tmp_path, SCENARIO, wire=WIRELESS)

    once = [
        ("download", 0.0, 1.0, 13.0),
        ("tail", 1.0, 5.0, 48.0),
        ("edge_aggregate", 5.0, 5.75, 23.75),
        ("upload", 5.75, 6.75, 13.0),
        ("tail", 6.75, 7.25, 6.0),
    ]
    again = [(kind, start + 7.25, end + 7.25, joules) for kind, start, end, joules in once]
    assert states(found, "edge-0") == approx([*once, *again])
    assert found.details("edge_aggregate")["tail_j"].tolist() == pytest.approx([0.5, 0.5])
    assert all(found.manifest["invariants"].values()), found.manifest["violations"]


@pytest.mark.parametrize(
    ("limit_s", "joules", "tail_j"), [(5.25, 8.0, 0.25), (5.5, 16.0, 0.5), (5.625, 19.875, 0.5)]
)
def test_the_end_of_the_run_cuts_an_aggregation_and_its_tail(
    tmp_path: Path, limit_s: float, joules: float, tail_j: float
) -> None:
    """The same edge server from 5 s on: 31 W, and 1 W more for the half second that is left."""
    scenario = SCENARIO.replace("stop: {versions: 2}", f"stop: {{time_s: {limit_s}}}")

    found = run(tmp_path, scenario, wire=WIRELESS)

    cut = found.details("edge_aggregate").iloc[-1]
    assert (cut["cut_by"], cut["time_s"]) == ("end", limit_s)
    assert cut["energy_j"] == pytest.approx(joules)
    assert cut["tail_j"] == pytest.approx(tail_j)
    assert cut["active_j"] == pytest.approx(joules - 11.0 * (limit_s - 5.0))
    assert found.manifest["violations"] == []


HUANG = """
kind: link
link: {name: fixed_rate, uplink_bps: 5.0e6, downlink_bps: 1.0e15, rtt_s: 0, jitter_s: 0,
       power_transmit_w: 1.28804, slope_up_w_per_bps: 4.3839e-7, power_receive_w: 0,
       power_idle_w: 0, promotion_s: 0.26, power_promotion_w: 1.2107, tail_s: 11.576,
       power_tail_w: 1.06}
"""
NO_TIME = """
kind: device
device_class: test
power_idle_w: 0.0
memory_bytes: 1.0e9
processor: {name: cpu, cores: 1, frequency_min_hz: 1.0e9, frequency_max_hz: 1.0e9,
            kappa: 0.0, power_static_w: 0.0, cycles_per_example: 1.0}
"""
AT_ONCE = PROFILES["machine"].replace(": 128", ": 1.0e15").replace(": 64", ": 1.0e15")


def test_the_published_joules_of_an_lte_upload(tmp_path: Path) -> None:
    """6.65 MB at 5 Mbit/s (Huang et al., MobiSys 2012): 37.03 + 0.315 + 12.27 = 49.6 J.

    That is the upload, the promotion before and the tail after it; the model that goes down and the
    work in between take next to nothing. The round goes on for a minute, for the other client.
    """
    scenario = FLAT.replace("versions: 2", "versions: 1").replace("fedavg, local:", "none, local:")
    scenario = scenario.replace("model: linear", "model: {name: mlp, hidden: [332500]}")
    slow = NO_TIME.replace("cycles_per_example: 1.0", "cycles_per_example: 1.5e10")
    found = run(tmp_path, scenario, radio=HUANG, fast=NO_TIME, slow=slow, machine=AT_ONCE)

    joules = found.clients.set_index("client").loc[0]
    assert joules["upload_j"] == pytest.approx(37.03, abs=5e-3)
    assert joules["download_j"] == pytest.approx(0.315, abs=5e-4)
    assert joules["tail_j"] == pytest.approx(12.27, abs=5e-3)
    assert joules["energy_j"] == pytest.approx(49.6, abs=0.05)
