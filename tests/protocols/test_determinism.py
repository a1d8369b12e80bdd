"""The same scenario gives the same log, however it was computed."""

import hashlib
import json
import random

import numpy as np
import pandas as pd
import pytest
import simpy

from simfl.protocols.clock import Clock
from simfl.provenance.journal import Journal
from tests.small import SEMI_ASYNCHRONOUS, final_weights, largest_difference, simulated, small

FLOAT32 = {"dtype": "float32", "protocol": SEMI_ASYNCHRONOUS, "stop": {"versions": 5}}


def log_bytes(folder):
    """Hash of the run's merged event log."""
    return hashlib.sha256((folder / "events.parquet").read_bytes()).hexdigest()


def without_learned_values(folder):
    """The events without learned values: accuracy and loss of evaluations."""
    events = pd.read_parquet(folder / "events.parquet")
    learned = events["kind"] == "evaluate"
    events.loc[learned, ["value", "detail"]] = None
    return events


@pytest.mark.parametrize("protocol", ["synchronous", SEMI_ASYNCHRONOUS])
def test_the_same_scenario_gives_a_byte_identical_log(tmp_path, protocol):
    """Twice, and with cohorts of at most 1 and 3 jobs: the same bytes."""
    scenario = small(dtype="float32", protocol=protocol, stop={"versions": 4})
    caps = {"first": None, "again": None, "one": 1, "three": 3}

    for name, cap in caps.items():
        (tmp_path / name).mkdir()
        simulated(scenario, tmp_path / name, cohort_cap=cap)

    assert len({log_bytes(tmp_path / name) for name in caps}) == 1


def test_the_seed_changes_the_log(tmp_path):
    """Another seed is another run."""
    for seed in (3, 4):
        (tmp_path / str(seed)).mkdir()
        simulated(small(**FLOAT32, seed=seed), tmp_path / str(seed))

    assert log_bytes(tmp_path / "3") != log_bytes(tmp_path / "4")


def test_segments_leave_no_trace(tmp_path):
    """However many rows go to a segment, the merged log has the same bytes."""
    for rows in (7, 100_000):
        (tmp_path / str(rows)).mkdir()
        simulated(small(**FLOAT32, log={"rows_per_segment": rows}), tmp_path / str(rows))

    assert log_bytes(tmp_path / "7") == log_bytes(tmp_path / "100000")


def test_the_sequential_reference_gives_the_same_events(tmp_path):
    """Where nothing learned decides anything, the trainers differ in learned values only."""
    for trainer in ("sequential", "batched"):
        (tmp_path / trainer).mkdir()
        simulated(small(**FLOAT32), tmp_path / trainer, trainer=trainer)

    pd.testing.assert_frame_equal(
        without_learned_values(tmp_path / "sequential"),
        without_learned_values(tmp_path / "batched"),
    )


def test_a_replay_from_the_journal_trains_nothing(tmp_path):
    """With the facts of an earlier run the log is the same, byte for byte, without training."""
    scenario = small(**FLOAT32)
    (tmp_path / "first").mkdir()
    (tmp_path / "replay").mkdir()
    journal = Journal(tmp_path / "journal.jsonl")
    simulated(scenario, tmp_path / "first", journal)
    journal.close()

    facts, damaged = Journal.read(tmp_path / "journal.jsonl")
    _, replay = simulated(scenario, tmp_path / "replay", Journal(facts=facts))

    assert damaged == 0
    assert replay.values.trainer.trained == 0
    assert log_bytes(tmp_path / "first") == log_bytes(tmp_path / "replay")


def test_lazy_and_eager_training_agree():
    """Reading every update at once or only in the end gives bit-identical weights."""
    lazy = simulated(small(**FLOAT32, evaluate={"every": 5}))[1]
    eager = simulated(small(**FLOAT32, evaluate={"every": 1}))[1]

    assert max(lazy.values.trainer.cohorts) >= max(eager.values.trainer.cohorts)
    assert largest_difference(final_weights(lazy), final_weights(eager)) == 0.0


def test_other_hardware_changes_time_and_energy_not_what_is_learned():
    """Synchronous training sees the same samples and learns the same on any devices."""
    phones = {"groups": [{"device": "phone_mid_sd660", "link": "lte_2021", "share": 1.0}]}

    mixed = simulated(small())[1]
    slow = simulated(small(population=phones))[1]

    assert largest_difference(final_weights(mixed), final_weights(slow)) == 0.0
    assert mixed.clock.now_s != slow.clock.now_s
    assert mixed.accounts.energy_j(1.0) != slow.accounts.energy_j(1.0)


class ShuffledEnvironment(simpy.Environment):
    """SimPy with simultaneous events of one priority in random order."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._eid = _Tickets(random.Random(seed))


class _Tickets:
    """Unique event numbers in random order, where SimPy's own ascend."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def __iter__(self):
        return self

    def __next__(self) -> float:
        return self._rng.random()


@pytest.mark.parametrize(
    "protocol",
    [
        {"name": "semi_asynchronous", "edge_rounds": 1, "concurrency": 4},
        {"name": "hierarchical", "edge_rounds": 2},
        {"name": "asynchronous", "concurrency": 5},
        {"name": "buffered", "buffer": 3, "concurrency": 5},
    ],
    ids=lambda protocol: protocol["name"],
)
def test_simultaneous_events_in_any_order_give_the_same_log(tmp_path, protocol):
    """Equal clients finish at the same moments; in which order they are handled is no matter."""
    twins = {
        "name": "paper",
        "clients": 8,
        "edges": 4,
        "cycles_per_example": [1e7, 1e7],
        "frequency_max_hz": [1e9, 1e9],
        "access_bps": [1e7, 1e7],
        "noise": 0.0,
    }
    scenario = small(
        population=twins,
        data={"name": "synthetic", "examples": 80, "partition": "iid"},
        dtype="float32",
        protocol=protocol,
        decisions={"selection": {"name": "random", "count": 1}, "scheduling": "random"},
        stop={"versions": 6},
    )

    hashes = set()
    for order in range(5):
        (tmp_path / str(order)).mkdir()
        simulated(scenario, tmp_path / str(order), clock=Clock(ShuffledEnvironment(order)))
        hashes.add(log_bytes(tmp_path / str(order)))

    uploads = pd.read_parquet(tmp_path / "0" / "events.parquet").query("kind == 'upload'")
    assert uploads["time_s"].duplicated().any()
    assert len(hashes) == 1


def test_facts_survive_the_journal_bit_for_bit(tmp_path):
    """Floats read back equal; a line cut off by a crash is ignored."""
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    values = [0.1 + 0.2, 1e-300, float(np.float32(1 / 3))]

    journal.know("a", lambda: values)
    journal.close()
    path.write_text(path.read_text() + json.dumps(["b", 1])[:-2])

    assert Journal.read(path) == ({"a": values}, 0)
