"""Clients that do part of their local work: how much, what it costs, and what it trains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import simfl
from simfl.algorithms.fedavg import FedAvg
from simfl.algorithms.fednova import FedNova
from simfl.learning.job import LocalTraining
from simfl.learning.partial_work import PartialWork
from simfl.learning.trainer import Trainer
from simfl.streams import Streams
from tests.small import final_weights, largest_difference, simulated, small

EPOCHS = 5
LOCAL = {"epochs": EPOCHS, "batch_size": 16, "learning_rate": 0.05}
HALF = {**LOCAL, "partial": {"clients": 0.5}}


def epochs_of(partial: PartialWork, epochs: int, clients: int = 20_000) -> np.ndarray:
    """What many clients draw for their fourth round."""
    shares = partial.shares(Streams(4), np.arange(clients), np.full(clients, 3))
    local = LocalTraining(epochs=epochs, partial=partial)
    return np.array([local.part(share).epochs for share in shares.tolist()])


def test_stragglers_train_any_number_of_epochs_alike() -> None:
    """FedProx's 90 %: E epochs for a tenth of the clients, else 1 to E, each as often."""
    drawn = epochs_of(PartialWork(clients=0.9), 20)

    counts = np.bincount(drawn, minlength=21)[1:]
    expected = np.full(20, 0.9 / 20)
    expected[-1] += 0.1
    assert stats.chisquare(counts, expected * drawn.size).pvalue > 0.001


def test_the_least_share_is_not_undercut() -> None:
    """FedNova's 2 to 5 epochs."""
    counts = np.bincount(epochs_of(PartialWork(least=0.2), 5), minlength=6)

    assert counts[:2].sum() == 0
    assert stats.chisquare(counts[2:]).pvalue > 0.001


def test_another_round_has_other_stragglers() -> None:
    """And the same client and round the same share."""
    partial, clients = PartialWork(clients=0.5), np.arange(1000)
    one, other = (partial.shares(Streams(4), clients, np.full(1000, count)) for count in (1, 2))

    assert 0.4 < ((one < 1) != (other < 1)).mean() < 0.6
    assert (partial.shares(Streams(4), clients[::-1], np.full(1000, 1))[::-1] == one).all()


@pytest.mark.parametrize(
    ("local", "share", "left"),
    [
        ({"epochs": 10}, 0.31, {"epochs": 4}),
        ({"epochs": 10}, 0.3, {"epochs": 3}),
        ({"epochs": 10}, 1e-12, {"epochs": 1}),
        ({"steps": 7}, 0.5, {"steps": 4}),
        ({"share": 0.5}, 0.5, {"share": 0.25}),
    ],
)
def test_a_part_of_the_work(local: dict[str, Any], share: float, left: dict[str, Any]) -> None:
    """Rounded up to whole epochs or steps, everything else as it was."""
    whole = LocalTraining(**local, batch_size=8, momentum=0.5, partial=PartialWork())

    assert whole.part(share) == LocalTraining(**left, batch_size=8, momentum=0.5)


@pytest.mark.parametrize(
    ("work", "least", "accepted"),
    [
        ({"epochs": 2}, 0.5, "less than 0.5, or more epochs"),
        ({"epochs": 5}, 0.8, "less than 0.8, or more epochs"),
        ({"steps": 4}, 0.9, "less than 0.75, or more steps"),
        ({"epochs": 1}, 0.0, "more epochs"),
    ],
)
def test_a_least_share_that_leaves_no_part_is_refused(
    work: dict[str, int], least: float, accepted: str
) -> None:
    """Rounded up, more than it is all of the work."""
    with pytest.raises(ValueError, match=accepted):
        LocalTraining(**work, partial=PartialWork(least=least))
    LocalTraining(epochs=5, partial=PartialWork(least=0.79))


def test_parts_of_many_clients_are_priced_by_what_they_are() -> None:
    """Each share is in the part that it makes, and there are at most as many as epochs."""
    shares = PartialWork().shares(Streams(2), np.arange(500), np.zeros(500, dtype=np.int64))
    for work, most in (({"epochs": 7}, 7), ({"steps": 30}, 30), ({"share": 0.9}, 500)):
        local = LocalTraining(**work, partial=PartialWork())
        parts = list(local.parts(shares))
        assert len(parts) <= most
        assert sorted(np.concatenate([places for _, places in parts])) == list(range(500))
        for part, places in parts:
            assert all(local.part(float(shares[place])) == part for place in places)


@pytest.mark.parametrize("algorithm", ["none", "fedavg"])
def test_a_part_costs_its_share_of_time_and_energy(algorithm: str, tmp_path: Path) -> None:
    """Each computation takes the epochs that were drawn for it, of the whole."""
    partly, whole = (
        pd.read_parquet(folder / "events.parquet").query("kind == 'compute'")
        for folder in (
            _ran(tmp_path / name, algorithm, local)[0]
            for name, local in (("a", HALF), ("b", LOCAL))
        )
    )

    seed = small().seed
    for version in range(3):
        shares = PartialWork(clients=0.5).shares(Streams(seed), np.arange(8), np.full(8, version))
        epochs = np.array(
            [LocalTraining(epochs=EPOCHS).part(one).epochs for one in shares.tolist()]
        )
        one, all_of_it = (
            rows[rows["version"] == version].set_index("client").sort_index()
            for rows in (partly, whole)
        )
        assert 0 < (epochs < EPOCHS).sum() < 8
        for column in ("duration_s", "active_j", "cycles"):
            ratio = one[column] / all_of_it[column]
            assert ratio.to_numpy() == pytest.approx(epochs / EPOCHS, rel=1e-9)


def test_a_part_trains_its_steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each update has made the epochs that were drawn for it, and weighs as much as before."""
    seen: list[Any] = []
    aggregate = FedAvg.aggregate

    def recording(self: Any, state: Any, updates: Any, evaluator: Any) -> Any:
        seen.append((state.version, updates))
        return aggregate(self, state, updates, evaluator)

    monkeypatch.setattr(FedAvg, "aggregate", recording)
    _ran(tmp_path, "fedavg", HALF)

    for version, updates in seen:
        rounds = np.full(8, version)
        shares = PartialWork(clients=0.5).shares(Streams(small().seed), np.arange(8), rounds)
        for one in updates:
            epochs = LocalTraining(epochs=EPOCHS).part(float(shares[one.client])).epochs
            assert one.steps == epochs * np.ceil(one.num_examples / 16)
            assert one.brief.recipe.local.partial is None


def test_the_bits_do_not_depend_on_how_jobs_are_trained(tmp_path: Path) -> None:
    """In cohorts of any size, though their clients make different numbers of steps."""
    (folder, one), (other_folder, other) = (
        _ran(tmp_path / str(cap), "fedprox", HALF, cohort_cap=cap) for cap in (8, 1)
    )

    assert largest_difference(final_weights(one), final_weights(other)) == 0.0
    assert (folder / "events.parquet").read_bytes() == (
        other_folder / "events.parquet"
    ).read_bytes()


@pytest.mark.parametrize(
    "work", [{"epochs": 20}, {"epochs": None, "steps": 40}, {"epochs": None, "share": 1.0}]
)
def test_clients_with_unequal_parts_are_trained_together(
    work: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One cohort a round, as if all did all of it."""
    sizes: list[list[int]] = []
    cut = Trainer.cut

    def recorded(self: Trainer, tasks: Any) -> list[list[int]]:
        cohorts = cut(self, tasks)
        sizes.append([len(one) for one in cohorts])
        return cohorts

    monkeypatch.setattr(Trainer, "cut", recorded)
    iid = {"data": {"name": "digits", "partition": {"name": "iid"}}}
    local = {**LOCAL, **work, "partial": {}}

    _ran(tmp_path, "fedavg", local, **iid)

    assert sizes and all(of_round == [8] for of_round in sizes)


@pytest.mark.parametrize("algorithm", ["none", "fedavg"])
def test_a_client_that_trains_twice_from_a_version_does_another_part(
    algorithm: str, tmp_path: Path
) -> None:
    """A buffer of twelve, filled by three clients: each trains several times from one version."""
    local = {**LOCAL, "epochs": 10, "partial": {"clients": 1.0}}
    protocol = {"name": "buffered", "buffer": 12, "concurrency": 3}
    folder, _ = _ran(tmp_path, algorithm, local, protocol=protocol, population={"clients": 3})

    rows = pd.read_parquet(folder / "events.parquet").query("kind == 'compute'")
    times = rows.groupby(["client", "version"])["duration_s"].agg(["size", "nunique"])
    often = times[times["size"] >= 4]
    assert len(often) and (often["nunique"] > 1).all()


def test_a_round_that_was_given_up_is_followed_by_other_parts(tmp_path: Path) -> None:
    """A deadline that all eight meet only if each does little: the next rounds try anew."""
    local = {**LOCAL, "epochs": 20_000, "partial": {"clients": 1.0}}
    probe, _ = _ran(tmp_path / "probe", "none", local, stop={"versions": 20})
    rows = pd.read_parquet(probe / "events.parquet").query("kind == 'compute'")
    slowest_s = rows.groupby("version")["duration_s"].max()
    deadline_s = float(slowest_s.quantile(0.2)) + 0.5
    assert slowest_s[0] > deadline_s
    patience = {"deadline_s": deadline_s, "least_updates": 8}
    protocol = {"name": "synchronous", "patience": patience}

    folder, _ = _ran(tmp_path / "run", "none", local, protocol=protocol)

    rows = pd.read_parquet(folder / "events.parquet")
    assert (rows["kind"] == "given_up").any() and rows["version"].max() >= 2


def test_unequal_work_is_what_fednova_normalises(tmp_path: Path) -> None:
    """With the same work on shards of one size it is FedAvg; with parts of it it is not."""
    equal = {"data": {"name": "digits", "partition": {"name": "iid"}}}
    for local, alike in ((LOCAL, True), (HALF, False)):
        one, other = (
            _ran(tmp_path / f"{name}{alike}", name, local, **equal)[1]
            for name in (FedAvg.name, FedNova.name)
        )
        apart = largest_difference(final_weights(one), final_weights(other))
        assert (apart < 1e-3) == alike


def _ran(folder: Path, algorithm: str, local: dict[str, Any], **changes: Any) -> tuple[Path, Any]:
    """The folder and the run of a small scenario; `changes` of it, or `cohort_cap`."""
    options = {key: changes.pop(key) for key in ("cohort_cap",) if key in changes}
    folder.mkdir(exist_ok=True)
    own = {key: one for key, one in local.items() if algorithm != "none" or key != "learning_rate"}
    scenario = small(algorithm={"name": algorithm, "local": own}, **changes)
    return folder, simulated(scenario, folder, **options)[1]


def test_contributions_are_those_of_whole_training(tmp_path: Path) -> None:
    """What a client reaches alone does not depend on how much it does for the others."""
    found = [
        simfl.run(
            small(
                algorithm={"name": "fedavg", "local": local, "contributions": {"rounds": 2}},
                evaluate={"measures": ["collaborative_fairness"]},
            ),
            tmp_path / str(place),
        ).clients["contribution"]
        for place, local in enumerate((HALF, LOCAL))
    ]

    assert found[0].notna().all() and found[0].equals(found[1])
