"""What parts of a user's own tell the run is compared with what happened, and oddities are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import simfl
from simfl.common.notices import Notice
from simfl.runs.runfolder import LoadedRun
from tests.small import small

PARTS = """
from dataclasses import dataclass, replace
import numpy as np
from simfl.plugins import Algorithm, CountedSelection, Measure, Partition, Protocol

@dataclass(frozen=True)
class Rounds(Protocol):
    staleness: int = 0
    participants: int | None = None
    discards: bool = False
    again: bool = False
    selects: bool = True
    client: int | None = None

    def process(self, run):
        ref, number = run.begin("cloud"), 0
        while True:
            chosen = run.all_clients
            if self.selects:
                chosen = yield from run.select(ref, run.all_clients, number)
            if self.client is not None:
                chosen = np.array([self.client])
            if self.discards:
                yield from run.client_rounds(chosen, ref, number)
            delivered = yield from run.client_rounds(chosen, ref, number)
            if not delivered.clients.size:
                return ref
            newer = yield from run.aggregate(ref, delivered, number)
            told = self.participants or delivered.distinct_clients
            late = np.full(delivered.clients.size, self.staleness)
            if run.publish(newer, number, told, staleness=late):
                return newer
            ref, number = (ref if self.again else newer), number + 1

@dataclass(frozen=True)
class Late(Protocol):
    def process(self, run):
        ref, number = run.begin("cloud"), 0
        older = yield from run.client_rounds(run.all_clients[:4], ref, 0)
        while True:
            delivered = yield from run.client_rounds(run.all_clients[4:], ref, number)
            new = yield from run.aggregate(ref, delivered, number)
            run.publish(new, number, 4, staleness=np.zeros(4))
            new = yield from run.aggregate(new, older, number)
            if run.publish(new, number, 4, staleness=older.staleness(new.version - 1)):
                return new

class Overlapping(Late):
    overlapping = True

class Everybody(CountedSelection):
    def decide(self, memory, view, rng):
        return memory, view.clients

class Some(Partition):
    def split(self, targets, home_edge, natural, rng):
        rows = np.array_split(np.arange(len(targets) // 4), len(home_edge))
        return [one.astype(np.int64) for one in rows]

@dataclass(frozen=True)
class Peeks(Algorithm):
    on: str = "test"
    def aggregate(self, state, updates, evaluator):
        evaluator.num_examples()
        evaluator.loss([state.weights], on=self.on)
        return super().aggregate(state, updates, evaluator)

@dataclass(frozen=True)
class Corrects(Algorithm):
    pays: bool = False
    def price(self, network, client, version):
        plain = super().price(network, client, version)
        return replace(plain, down_bytes=(2 if self.pays else 1) * plain.down_bytes)
    def brief(self, network, state, client, held):
        zeros = {name: 0.0 * state.weights[name] for name in network.trainable_names}
        return replace(super().brief(network, state, client, held), correction=zeros)

class Changes(Measure):
    def compute(self, run):
        run.events["energy_j"] = 0.0
        run.rounds["client_energy_j"] *= 0.0
        return {"done": 1.0}

class After(Measure):
    def compute(self, run):
        client_j = run.rounds["client_energy_j"].iloc[-1]
        return {"j": run.events["energy_j"].sum(), "client_j": client_j}
"""
TIMING = {"name": "none", "local": {"epochs": 1, "batch_size": 16}}


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file of the parts above."""
    file = tmp_path_factory.mktemp("own") / "own.py"
    file.write_text(PARTS)
    return f"{file}"


def ran(parts: str, folder: Path, keys: dict[str, Any] | None = None, **changes: Any) -> LoadedRun:
    """A small run by the protocol `Rounds` with these keys."""
    protocol = {"name": f"{parts}:Rounds", **(keys or {})}
    return simfl.run(small(**{"protocol": protocol, "algorithm": TIMING, **changes}), folder)


def told(run: LoadedRun, kind: str) -> list[Notice]:
    """The run's warnings of one kind."""
    return [one for one in run.warnings if one.kind == kind]


@pytest.mark.parametrize(
    ("keys", "refused"),
    [
        ({"staleness": 1}, r"staleness: found .*1.*accepted: .*0.*of the updates merged since"),
        ({"participants": 99}, r"participants: found 99, accepted: at most 8"),
        ({"again": True}, r"publish: found version 1, accepted: above 1, the last"),
        ({"client": 99}, r"clients: found 99, accepted: 0 to 7"),
    ],
)
def test_figures_that_are_not_those_of_the_run_are_refused(
    keys: dict[str, Any], refused: str, parts: str, tmp_path: Path
) -> None:
    """With what would be accepted."""
    with pytest.raises(ValueError, match=refused):
        ran(parts, tmp_path / "run", keys)


def test_true_figures_are_accepted_without_a_word(parts: str, tmp_path: Path) -> None:
    """An own protocol has the warnings of the shipped one, and the same run."""
    own = ran(parts, tmp_path / "own")
    shipped = ran(parts, tmp_path / "shipped", protocol="synchronous")

    assert {one.kind for one in own.warnings} == {one.kind for one in shipped.warnings}
    assert own.manifest["energy_j"] == shipped.manifest["energy_j"]


def test_stale_updates_have_to_be_declared(parts: str, tmp_path: Path) -> None:
    """For algorithms that refuse them; a protocol that declares them has them."""
    with pytest.raises(ValueError, match=r"found an update that is 1 versions old"):
        ran(parts, tmp_path / "run", protocol=f"{parts}:Late")

    run = ran(parts, tmp_path / "declared", protocol=f"{parts}:Overlapping", stop={"versions": 2})
    assert run.rounds["staleness"].tolist() == [0.0, 1.0]


@pytest.mark.parametrize("discards", [True, False])
def test_updates_that_are_never_aggregated_are_told(
    discards: bool, parts: str, tmp_path: Path
) -> None:
    """Of an own protocol: half of them."""
    run = ran(parts, tmp_path / "run", {"discards": discards})

    found = told(run, "unmerged_updates")
    assert run.manifest["merged_updates"] == 24
    assert [one.message.startswith("24 of 48 updates that have arrived") for one in found] == [
        True
    ] * discards


@pytest.mark.parametrize("selects", [True, False])
def test_clients_that_are_away_are_told(selects: bool, parts: str, tmp_path: Path) -> None:
    """If a protocol dispatches them without a selection."""
    away = {"name": "periodic", "period_s": 10.0, "share": 0.3}
    run = ran(parts, tmp_path / "run", {"selects": selects}, population={"availability": away})

    found = told(run, "dispatched_absent")
    assert [one.message.split(" began ")[0] for one in found] == [
        f"{one.count} of 24 client rounds" for one in found
    ]
    assert (len(found) == 1) == (not selects)


@pytest.mark.parametrize(("selection", "large"), [("Everybody", True), ("random", False)])
def test_more_clients_than_the_count_are_told(
    selection: str, large: bool, parts: str, tmp_path: Path
) -> None:
    """Another selection with the same count has smaller rounds."""
    name = f"{parts}:{selection}" if large else selection
    run = ran(
        parts,
        tmp_path / "run",
        protocol="synchronous",
        decisions={"selection": {"name": name, "count": 3}},
    )

    assert [one.count for one in told(run, "large_rounds")] == [3] * large


@pytest.mark.parametrize(("partition", "unused"), [("Some", True), ("iid", False)])
def test_rows_that_belong_to_nobody_are_told(
    partition: str, unused: bool, parts: str, tmp_path: Path
) -> None:
    """Three quarters of the training examples."""
    name = f"{parts}:{partition}" if unused else partition
    run = ran(parts, tmp_path / "run", data={"name": "digits", "partition": name})

    found = told(run, "unused_rows")
    rows = int(run.clients["num_examples"].sum())
    assert [one.message for one in found] == [
        f"{one.count} of {one.count + rows} training examples belong to no client" for one in found
    ]
    assert len(found) == unused
    assert all(one.count > 2.9 * rows for one in found)


@pytest.mark.parametrize("on", ["test", "validation"])
def test_a_look_at_the_test_set_is_told(on: str, parts: str, tmp_path: Path) -> None:
    """Its size alone tells nothing of it."""
    local = {"epochs": 1, "batch_size": 16, "learning_rate": 0.1}
    run = ran(
        parts,
        tmp_path / "run",
        protocol="synchronous",
        algorithm={"name": f"{parts}:Peeks", "on": on, "local": local},
        data={"name": "digits", "partition": "iid", "validation_share": 0.1},
    )

    found = told(run, "tested_while_training")
    assert [one.count for one in found] == [3] * (on == "test")
    assert all(
        "in Peeks.aggregate evaluated models on the test set" in one.message for one in found
    )


@pytest.mark.parametrize("pays", [True, False])
def test_a_correction_that_is_not_in_the_price_is_told(
    pays: bool, parts: str, tmp_path: Path
) -> None:
    """SCAFFOLD's costs as much as the model."""
    local = {"epochs": 1, "batch_size": 16, "learning_rate": 0.1}
    algorithm = {"name": f"{parts}:Corrects", "pays": pays, "local": local}
    run = ran(parts, tmp_path / "run", protocol="synchronous", algorithm=algorithm)

    found = told(run, "unpaid_correction")
    assert len(found) == (not pays)
    assert all("corrections of 3.64 kB" in one.message for one in found)


def test_a_measure_that_changes_its_tables_changes_nobody_elses(parts: str, tmp_path: Path) -> None:
    """The next one sees what the run has."""
    measures = [f"{parts}:Changes", f"{parts}:After"]
    run = ran(parts, tmp_path / "run", evaluate={"measures": measures})

    before = run.rounds["client_energy_j"].tolist()
    other = run.unshared().rounds
    other["client_energy_j"] = 0.0
    assert run.rounds["client_energy_j"].tolist() == before
    after = run.manifest["measures"]["after"]
    assert after == {
        "j": pytest.approx(run.manifest["energy_j"]),
        "client_j": run.manifest["client_energy_j"],
    }
