"""Energy, bytes and time are conserved: sums over events equal totals."""

import numpy as np
import pandas as pd
import pytest

import simfl
from simfl.eventlog.kinds import KIND_INDEX
from simfl.eventlog.log import EventLog
from simfl.eventlog.rows import Rows, join_rows, take_rows
from simfl.runs.execution import RunFailed
from tests.books import check_bytes, check_clients, check_energy, check_states, check_versions
from tests.small import SEMI_ASYNCHRONOUS, small

SCENARIOS = {
    "synchronous": small(stop={"versions": 3}),
    "semi-asynchronous": small(
        protocol={**SEMI_ASYNCHRONOUS, "concurrency": 2}, stop={"versions": 4}
    ),
    "cut in the middle": small(
        protocol=SEMI_ASYNCHRONOUS, stop={"versions": None, "time_s": 0.123}
    ),
    "clients come and go": small(
        population={"availability": {"name": "periodic", "period_s": 0.2, "share": 0.4}},
        decisions={"selection": {"name": "random", "share": 0.5}},
    ),
    "nothing is sent": small(algorithm="standalone"),
}


@pytest.fixture(scope="module", params=list(SCENARIOS))
def finished(request, tmp_path_factory):
    """Each scenario's run."""
    return simfl.run(SCENARIOS[request.param], tmp_path_factory.mktemp("run") / "run")


def test_energy_by_state_sums_to_the_total(finished):
    """Joules of all rows are the run's joules, and each client's rows are the client's."""
    check_energy(finished)
    check_clients(finished)


def test_states_partition_each_devices_time(finished):
    """A device is in one state at a time: its rows follow each other without gap or overlap."""
    check_states(finished)


def test_bytes_are_counted_once_per_hop(finished):
    """The total is the sum over messages that arrived; clients' columns are their own rows."""
    events = finished.events
    messages = events[events["kind"].isin(["download", "upload"])]

    assert messages["bytes"].sum() == finished.manifest["bytes"]
    up = messages[(messages["kind"] == "upload") & messages["client"].notna()]
    assert up["bytes"].sum() == finished.clients["bytes_sent"].sum()


def test_what_was_sent_arrived_or_is_in_flight(finished):
    """The senders' own count: what arrived are the log's messages, what was cut is in flight."""
    events, traffic = finished.events, finished.manifest["traffic"]
    messages = events[events["kind"].isin(["download", "upload"])]
    cut = messages["cut_by"] == "end"

    check_bytes(finished)
    assert traffic["bytes_lost"] == 0
    assert (traffic["bytes_in_flight"] > 0) == (messages.loc[cut, "attempts"] > 0).any()


def test_a_run_whose_rows_are_not_written_has_the_same_books(tmp_path):
    """Joules, bytes by what became of them, and the fingerprint, of messages that are lost."""
    loss = {"probability": 0.4, "timeout_s": 0.05, "attempts_max": 2}
    runs = [
        simfl.run(
            small(
                population={"message_loss": loss},
                algorithm={"name": "none", "local": {"epochs": 1, "batch_size": 16}},
                stop={"versions": 4},
                log={"level": level},
            ),
            tmp_path / level,
        )
        for level in ("full", "rounds")
    ]
    full, rounds = (one.manifest for one in runs)

    assert full["traffic"]["bytes_lost"] > 0
    for name in ("traffic", "energy_j", "energy_by_state_j", "fingerprint", "violations"):
        assert rounds[name] == full[name], name


RECEIPTS = {
    "dropped": lambda rows, one: take_rows(rows, ~one),
    "entered twice": lambda rows, one: join_rows([rows, take_rows(rows, one)]),
    "of another size": lambda rows, one: but(rows, bytes=rows["bytes"] + one),
    "of another client": lambda rows, one: but(rows, actor=(rows["actor"] + one) % 8),
}


def but(rows, **columns):
    """The rows with other columns."""
    return Rows(rows.count, {**rows.columns, **columns})


@pytest.mark.parametrize("kind", ["download", "upload"])
@pytest.mark.parametrize("wrong", list(RECEIPTS))
def test_a_wrong_receipt_fails_the_run(wrong, kind, tmp_path, monkeypatch):
    """One message of the run is entered wrongly into the log; its sender's count tells."""
    add, seen = EventLog.add, []

    def faulty(log, rows, powers=None):
        of_clients = (rows["kind"] == KIND_INDEX[kind]) & (rows["actor"] < 8)
        if of_clients.any():
            seen.append(rows)
            if len(seen) == 2:
                rows = RECEIPTS[wrong](rows, np.arange(len(of_clients)) == of_clients.argmax())
        add(log, rows, powers)

    monkeypatch.setattr(EventLog, "add", faulty)

    with pytest.raises(RunFailed, match=rf"received \+ lost \+ in flight: {kind} of actor"):
        simfl.run(SCENARIOS["synchronous"], tmp_path / "run")

    manifest = simfl.load_run(tmp_path / "run").manifest
    assert manifest["status"] == "failed"
    assert not manifest["invariants"]["bytes sent = received + lost + in flight"]
    assert manifest["invariants"]["bytes add up"]


BOOKED = {
    "a client's joules under the cloud": lambda rows, one: but(
        rows, energy_j=rows["energy_j"] * ~one
    ),
    "beyond idle power what is not": lambda rows, one: but(rows, extra_j=rows["extra_j"] + one),
}


@pytest.mark.parametrize("wrong", list(BOOKED))
def test_joules_in_the_wrong_place_fail_the_run(wrong, tmp_path, monkeypatch):
    """The total is right, and what clients, servers or activities are said to have taken is not."""
    add, row, moved = EventLog.add, EventLog.row, []

    def faulty(log, rows, powers=None):
        of_clients = (rows["kind"] == KIND_INDEX["compute"]) & (rows["actor"] < 8)
        if of_clients.any() and not moved:
            one = np.arange(rows.count) == of_clients.argmax()
            moved.append(float(rows["energy_j"][one].sum()))
            rows = BOOKED[wrong](rows, one)
        add(log, rows, powers)

    def given_to_the_cloud(log, kind, actor, time_s, **columns):
        if kind == "cloud_aggregate" and "cloud" in wrong and len(moved) == 1:
            columns["energy_j"] += moved[0]
            moved.append(0.0)
        row(log, kind, actor, time_s, **columns)

    monkeypatch.setattr(EventLog, "add", faulty)
    monkeypatch.setattr(EventLog, "row", given_to_the_cloud)

    with pytest.raises(RunFailed, match="joules add up: client_"):
        simfl.run(SCENARIOS["synchronous"], tmp_path / "run")

    manifest = simfl.load_run(tmp_path / "run").manifest
    assert [law for law, holds in manifest["invariants"].items() if not holds] == ["joules add up"]
    total = [one for one in manifest["violations"] if "add up: energy_j" in one]
    assert not total


def test_the_rounds_table_can_be_recomputed_from_the_events(finished):
    """Energy by each version's moment is that of the rows by then; bytes are those arrived.

    A message or a computation under way has taken a part of its joules by then, whatever part.
    """
    check_versions(finished)


def test_the_manifest_reports_that_all_laws_hold(finished):
    """Every invariant is checked on every run and reported."""
    assert finished.manifest["status"] == "completed"
    assert len(finished.manifest["invariants"]) == 8
    assert all(finished.manifest["invariants"].values())
    assert finished.manifest["violations"] == []


def test_without_messages_nothing_is_sent(tmp_path):
    """Standalone training moves no byte and spends no energy on transfers."""
    run = simfl.run(SCENARIOS["nothing is sent"], tmp_path / "run")

    assert run.manifest["bytes"] == 0
    assert not run.events["kind"].isin(["download", "upload"]).any()


def test_rounds_only_keeps_the_totals(tmp_path):
    """`log: rounds` writes no events, and the same tables."""
    full = simfl.run(SCENARIOS["semi-asynchronous"], tmp_path / "full")
    scenario = SCENARIOS["semi-asynchronous"].with_overrides(["log.level=rounds"])
    rounds = simfl.run(scenario, tmp_path / "rounds")

    assert not (rounds.path / "events.parquet").exists()
    pd.testing.assert_frame_equal(full.rounds, rounds.rounds)
    pd.testing.assert_frame_equal(full.clients, rounds.clients)


def test_missing_cost_data_is_an_error(tmp_path):
    """A processor that only knows cycles per example cannot serve as a server: named, not zero."""
    (tmp_path / "bare.yaml").write_text(
        "kind: server\npower_idle_w: 1\nmemory_bandwidth_bytes_per_s: 1.0e9\noverhead_s: 0\n"
        "processor: {name: cpu, cores: 1, frequency_min_hz: 1.0e9, frequency_max_hz: 1.0e9,\n"
        "            kappa: 1.0e-28, cycles_per_example: 1.0e6}\n"
    )
    scenario = small(population={"cloud_server": "bare", "profiles": [str(tmp_path)]})

    with pytest.raises(ValueError, match=r"bare.*flops_per_s"):
        simfl.run(scenario, tmp_path / "run")
    assert not (tmp_path / "run").exists()
