"""Simultaneous events at the end of a run: all that happens at that moment has happened."""

import pandas as pd
import pytest

import simfl
from simfl.assembly.assemble import assemble
from simfl.protocols.clock import Clock
from simfl.protocols.semi_asynchronous import SemiAsynchronous
from simfl.provenance.journal import Journal
from tests.protocols.test_determinism import ShuffledEnvironment, log_bytes
from tests.small import simulated, small

TWINS = {
    "name": "paper",
    "clients": 8,
    "edges": 4,
    "cycles_per_example": [1e7, 1e7],
    "frequency_max_hz": [1e9, 1e9],
    "access_bps": [1e7, 1e7],
    "noise": 0.0,
}


def twins(**changes):
    """Four edge servers whose equal clients, with equal data, finish at the same moments."""
    return small(
        population=TWINS,
        data={"name": "synthetic", "examples": 80, "partition": "iid"},
        dtype="float32",
        protocol={"name": "semi_asynchronous", "edge_rounds": 2, "concurrency": 4},
        decisions={"selection": {"name": "random", "count": 1}, "scheduling": "random"},
        **changes,
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The events of six versions, to take limits from."""
    folder = tmp_path_factory.mktemp("whole")
    simulated(twins(stop={"versions": 6}), folder)
    return pd.read_parquet(folder / "events.parquet")


@pytest.mark.parametrize("moment", ["upload", "cloud_aggregate"])
def test_a_limit_at_a_busy_moment_cuts_the_same_in_any_order(tmp_path, whole, moment):
    """`time_s` at the end of several rounds, or of a merge: what ends at that moment counts."""
    limit_s = float(whole.loc[whole["kind"] == moment, "time_s"].iloc[1])

    found = set()
    for order in range(4):
        (tmp_path / str(order)).mkdir()
        clock = Clock(ShuffledEnvironment(order))
        scenario = twins(stop={"versions": None, "time_s": limit_s})
        _, run = simulated(scenario, tmp_path / str(order), clock=clock)
        assert run.clock.now_s == limit_s
        participations = tuple(run.observations.participations.tolist())
        found.add((log_bytes(tmp_path / str(order)), participations, len(run.publications.rounds)))

    merged = (whole["kind"] == "cloud_aggregate") & (whole["time_s"] <= limit_s)
    assert len(found) == 1
    assert found.pop()[2] == merged.sum()


def test_participations_are_the_uploads_that_arrived(tmp_path):
    """A cohort that the end of the run cuts counts for those of its clients that are done."""
    simulated(small(stop={"versions": 1}), tmp_path)
    uploads = pd.read_parquet(tmp_path / "events.parquet").query("kind == 'upload'")["time_s"]
    limit_s = float(uploads.sort_values().iloc[3])

    _, run = simulated(small(stop={"versions": None, "time_s": limit_s}), tmp_path)

    events = pd.read_parquet(tmp_path / "events.parquet")
    arrived = events[(events["kind"] == "upload") & (events["bytes"] > 0)]
    assert len(arrived) == 4
    assert sorted(arrived["client"]) == run.observations.participations.nonzero()[0].tolist()
    assert run.observations.participations.max() == 1


def test_rounds_of_the_tables_are_those_of_the_events(tmp_path):
    """A version's `round` is that of the rounds behind it, and `participants` are its clients."""
    for name, scenario in {
        "flat": small(decisions={"selection": {"name": "random", "count": 3}}),
        "hierarchical": twins(stop={"versions": 8}),
    }.items():
        (tmp_path / name).mkdir()
        _, run = simulated(scenario, tmp_path / name)

        events = pd.read_parquet(tmp_path / name / "events.parquet")
        merges = events[events["kind"] == "cloud_aggregate"]
        client_rounds = events[(events["kind"] == "upload") & events["client"].notna()]
        assert merges["round"].tolist() == [row["round"] for row in run.publications.rounds]
        for row in run.publications.rounds:
            behind = client_rounds[client_rounds["round"] == row["round"]]
            if row["edge"] is not None:
                behind = behind[behind["edge"] == row["edge"]]
            assert row["participants"] == behind["client"].nunique(), row


FEW_SLOTS = {"name": "buffered", "buffer": 6, "concurrency": 2}
LATE = {"name": "synchronous", "patience": {"deadline_s": 0.05, "late": "carry_over"}}


@pytest.mark.parametrize("protocol", [FEW_SLOTS, LATE], ids=["buffered", "carried over"])
def test_a_client_with_two_updates_in_a_version_is_one_participant(protocol, tmp_path):
    """Some of three clients are in a version twice: with an earlier round and with this one."""
    scenario = small(
        protocol=protocol,
        population={"clients": 3, "edges": 1},
        algorithm={"name": "none", "local": {"batch_size": 16}},
        stop={"versions": 40},
    )

    one = simfl.run(scenario, tmp_path / "run").rounds

    assert (one["participants"] <= one["updates"]).all()
    assert one["participants"].max() <= 3
    assert (one["participants"] < one["updates"]).any()


def test_rows_are_written_between_versions_too(tmp_path):
    """Many edge rounds lie between two versions; the log holds no more than a few of them."""
    scenario = small(
        protocol={"name": "semi_asynchronous", "edge_rounds": 40, "concurrency": 1},
        algorithm="none",
        log={"rows_per_segment": 20},
        stop={"versions": 1},
    )
    run = assemble(scenario).make_run(tmp_path, Journal())
    run.env.process(SemiAsynchronous(edge_rounds=40, concurrency=1).process(run))

    held = 0
    while not run.publications.rounds:
        held = max(held, run.log._pending_rows)
        run.env.step()

    assert run.log.rows_written > 500
    assert held < 100


def test_the_network_spends_energy_both_ways(tmp_path):
    """Per byte, on the way down and on the way up."""
    (tmp_path / "paid.yaml").write_text(
        "kind: link\nlink: {name: fixed_rate, uplink_bps: 1.0e6, downlink_bps: 2.0e6, rtt_s: 0,\n"
        "  power_transmit_w: 1, power_receive_w: 1, power_idle_w: 0, energy_j_per_byte: 0.25}\n"
    )
    population = {
        "groups": [{"device": "rpi_4b", "link": "paid", "share": 1.0}],
        "profiles": [str(tmp_path)],
    }

    _, run = simulated(small(population=population, algorithm="none"))

    spent_j = run.accounts.joules[run.actors.network].sum()
    assert spent_j == pytest.approx(0.25 * run.accounts.bytes_moved(run.clock.now_s))
    assert spent_j > 0
