"""Two clients, one edge server, two rounds: every event as computed on paper."""

from pathlib import Path

import pytest

import simfl

PROFILES = {
    "slow": """
kind: device
device_class: test
power_idle_w: 1.0
memory_bytes: 1.0e9
processor: {name: cpu, cores: 1, frequency_min_hz: 5.0e8, frequency_max_hz: 5.0e8,
            kappa: 1.0e-28, power_static_w: 0.5, cycles_per_example: 2.5e8}
""",
    "fast": """
kind: device
device_class: test
power_idle_w: 1.0
memory_bytes: 1.0e9
processor: {name: cpu, cores: 1, frequency_min_hz: 5.0e8, frequency_max_hz: 1.0e9,
            kappa: 1.0e-28, power_static_w: 0.5, cycles_per_example: 2.5e8}
""",
    "machine": """
kind: server
power_idle_w: 10
memory_bandwidth_bytes_per_s: 128
overhead_s: 0.25
processor: {name: accelerator, flops_per_s: 64, efficiency: 0.5, frequency_min_hz: 1.0e9,
            frequency_max_hz: 1.0e9, power_active_w: 30, power_idle_w: 10}
""",
    "radio": """
kind: link
link: {name: fixed_rate, uplink_bps: 128, downlink_bps: 256, rtt_s: 0.5, jitter_s: 0,
       power_transmit_w: 2, power_receive_w: 1.5, power_idle_w: 0.5}
""",
    "wire": """
kind: link
link: {name: fixed_rate, uplink_bps: 128, downlink_bps: 128, rtt_s: 0, jitter_s: 0,
       power_transmit_w: 3, power_receive_w: 3, power_idle_w: 1, energy_j_per_byte: 0.25}
""",
}

SCENARIO = """
name: by-hand
data: {name: synthetic, task: regression, examples: 8, test_examples: 4, features: 3,
       outputs: 1}
model: linear
population:
  name: catalogue
  clients: 2
  edges: 1
  profiles: [profiles]
  groups: [{device: fast, link: radio, count: 1}, {device: slow, link: radio, count: 1}]
  edge_server: machine
  cloud_server: machine
  backhaul: wire
algorithm: {name: fedavg, local: {epochs: 1, batch_size: 2, learning_rate: 0.01}}
protocol: {name: semi_asynchronous, edge_rounds: 1, concurrency: 1}
stop: {versions: 2}
"""

# (time_s, kind, actor, start_s, energy_j, bytes)
ROUND = [
    (1.0, "download", "edge-0", 0.0, 13.0, 16),
    (1.0, "network", "network", 0.0, 4.0, 0),
    (1.0, "select", "edge-0", 1.0, 0.0, 0),
    (1.75, "download", "client-0", 1.0, 1.875, 16),
    (1.75, "download", "client-1", 1.0, 1.875, 16),
    (2.75, "compute", "client-0", 1.75, 2.1, 0),
    (3.75, "compute", "client-1", 1.75, 4.025, 0),
    (4.0, "upload", "client-0", 2.75, 3.75, 16),
    (5.0, "upload", "client-1", 3.75, 3.75, 16),
    (5.75, "edge_aggregate", "edge-0", 5.0, 23.25, 0),
    (6.75, "upload", "edge-0", 5.75, 13.0, 16),
    (6.75, "network", "network", 5.75, 4.0, 0),
    (7.25, "cloud_aggregate", "cloud", 6.75, 15.0, 0),
    (7.25, "evaluate", "cloud", 7.25, 0.0, 0),
]
ONCE = [
    (0.0, "associate", "cloud", 0.0, 0.0, 0),
    (0.0, "departure", "cloud", 0.0, 0.0, 0),
    (7.25, "schedule", "cloud", 7.25, 0.0, 0),
    # Waiting: clients at 1.5 W, the edge server at 11 W, the cloud at 10 W.
    (1.0, "idle", "client-0", 0.0, 1.5, 0),
    (1.0, "idle", "client-1", 0.0, 1.5, 0),
    (8.25, "idle", "client-0", 4.0, 6.375, 0),
    (8.25, "idle", "client-1", 5.0, 4.875, 0),
    (14.5, "idle", "client-0", 11.25, 4.875, 0),
    (14.5, "idle", "client-1", 12.25, 3.375, 0),
    (5.0, "idle", "edge-0", 1.0, 44.0, 0),
    (7.25, "idle", "edge-0", 6.75, 5.5, 0),
    (12.25, "idle", "edge-0", 8.25, 44.0, 0),
    (14.5, "idle", "edge-0", 14.0, 5.5, 0),
    (6.75, "idle", "cloud", 0.0, 67.5, 0),
    (14.0, "idle", "cloud", 7.25, 67.5, 0),
]


@pytest.fixture
def by_hand(tmp_path: Path):
    """The run of the scenario above."""
    (tmp_path / "profiles").mkdir()
    for name, text in PROFILES.items():
        (tmp_path / "profiles" / f"{name}.yaml").write_text(text)
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    return simfl.run(tmp_path / "scenario.yaml", tmp_path / "run")


def test_every_event_is_as_computed_on_paper(by_hand):
    """The log equals a timeline derived by hand, event for event.

    The model is y = W x + b with three features: 4 values, 16 bytes, 128 bits. Each client has
    four examples at 2.5e8 cycles, so a client round is 1e9 cycles.

    Access link: down 0.25 s + 128/256 s = 0.75 s, up 0.25 s + 128/128 s = 1.25 s. Beyond its idle
    power the radio draws 1.0 W receiving and 1.5 W sending; a client idles at 1.0 + 0.5 = 1.5 W:
    down 1.5 * 0.75 + 1.0 * 0.75 = 1.875 J, up 1.5 * 1.25 + 1.5 * 1.25 = 3.75 J.
    Computing: client 0 at 1 GHz takes 1 s and 1.5 + 0.5 (static) + 1e-28 * 1e9 * 1e18 = 2.1 J,
    client 1 at 0.5 GHz takes 2 s and 3.0 + 1.0 + 0.025 = 4.025 J.
    Backhaul: 128/128 = 1 s each way; the edge server idles at 10 + 1 = 11 W and draws 2 W more:
    13 J, and the network spends 16 * 0.25 = 4 J.
    Edge aggregation of two updates: 2 * 2 * 4 = 16 operations at 32/s are 0.5 s, 48 bytes moved
    at 128/s are 0.375 s; the longer plus 0.25 s of overhead is 0.75 s, 11 * 0.75 + 20 * 0.75 =
    23.25 J. The cloud merges one model: 8 operations are 0.25 s, 32 bytes 0.25 s: 0.5 s and
    10 * 0.5 + 20 * 0.5 = 15 J.

    Round one: the model reaches the edge server at 1, the clients at 1.75; they finish computing
    at 2.75 and 3.75, uploading at 4 and 5; the edge server has aggregated at 5.75 and uploaded at
    6.75; version 1 is out at 7.25, when the cloud dispatches again. Round two is the same, 7.25 s
    later.
    """
    second = [(t + 7.25, kind, actor, s + 7.25, j, b) for t, kind, actor, s, j, b in ROUND]
    expected = sorted([*ROUND, *second, *ONCE])

    columns = ["time_s", "kind", "actor", "start_s", "energy_j", "bytes"]
    found = sorted(by_hand.events[columns].itertuples(index=False, name=None))

    assert [row[:4] for row in found] == [row[:4] for row in expected]
    assert [row[4] for row in found] == pytest.approx([row[4] for row in expected], rel=1e-12)
    assert [row[5] for row in found] == [row[5] for row in expected]


def test_rounds_hold_the_totals_at_their_moment(by_hand):
    """At each version: what all devices spent up to then, and every message on every hop.

    Round one spends the sum of its rows, 91.625 J, and the waiting up to 7.25 s: clients 1 s each
    before and 3.25 and 2.25 s after their turns, the edge server 4.5 s, the cloud 6.75 s. Six
    messages of 16 bytes cross a link.
    """
    waiting_j = 1.5 * (1 + 1 + 3.25 + 2.25) + 11 * 4.5 + 10 * 6.75
    round_j = sum(row[4] for row in ROUND) + waiting_j

    rounds = by_hand.rounds

    assert rounds["time_s"].tolist() == [7.25, 14.5]
    assert rounds["latency_s"].tolist() == [7.25, 7.25]
    assert rounds["energy_j"].tolist() == pytest.approx([round_j, 2 * round_j], rel=1e-12)
    assert rounds["bytes"].tolist() == [96, 192]
    assert rounds["staleness"].tolist() == [0, 0]


def test_details_break_the_energy_down(by_hand):
    """A computation's detail holds its cycles, dynamic and static joules."""
    compute = by_hand.details("compute")

    assert compute["cycles"].tolist() == pytest.approx([1e9] * 4)
    assert compute["dynamic_j"].tolist() == pytest.approx([0.1, 0.025, 0.1, 0.025])
    assert compute["static_j"].tolist() == pytest.approx([0.5, 1.0, 0.5, 1.0])


def test_clients_table_adds_up_per_device(by_hand):
    """Seconds by state fill the horizon; joules are those of the client's rows."""
    clients = by_hand.clients.set_index("client")
    states = [f"{state}_s" for state in ("download", "compute", "upload", "tail", "idle")]

    assert clients[states].sum(axis=1).tolist() == pytest.approx([14.5, 14.5])
    assert clients["compute_s"].tolist() == pytest.approx([2.0, 4.0])
    assert clients["energy_j"].tolist() == pytest.approx([28.2, 29.05])
    assert clients["bytes_sent"].tolist() == [32, 32]
    assert clients["participations"].tolist() == [2, 2]


def test_the_resolved_scenario_gives_the_same_log(by_hand, tmp_path):
    """Running the run folder's own scenario.yaml leaves the same bytes, own profiles included."""
    again = simfl.run(by_hand.path / "scenario.yaml", tmp_path / "again")

    first, second = ((run.path / "events.parquet").read_bytes() for run in (by_hand, again))
    assert first == second
