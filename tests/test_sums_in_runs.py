"""Whoever sums up which updates, in however many groups: one model, of every algorithm."""

from __future__ import annotations

import pickle
import random
from pathlib import Path

import pytest
from torch import Tensor

import simfl
from simfl.assembly.simulation import Options
from simfl.learning import sums
from simfl.learning.parameters import Parameters
from simfl.learning.sums import PartialSum
from simfl.learning.workers import parallel
from simfl.provenance.results import MemoryStore
from tests.small import final_weights, largest_difference, simulated
from tests.test_contracts import LEARNING, PROTOCOLS, class_of, scenario_of
from tests.test_resume import cut_off
from tests.test_reuse import PHONES

add_in_one_piece = PartialSum.add
WIDE = [("fedavg", protocol) for protocol in PROTOCOLS if protocol != "synchronous"]
PAIRS = [*[(one, class_of(one).paper_protocol) for one in LEARNING], *WIDE]


@pytest.fixture(autouse=True)
def _large_tensors_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The small model's matrices are summed as large ones, its biases as small ones."""
    monkeypatch.setattr(sums, "FEW_VALUES", 100)


def disperse(monkeypatch: pytest.MonkeyPatch, groups: int) -> None:
    """Have members summed up in so many groups, here and there, and merged from behind."""

    def add(whole: PartialSum, members: dict[int, Parameters]) -> None:
        places = random.Random(groups).sample(sorted(members), len(members))
        for number in reversed(range(groups)):
            part = PartialSum(whole.weights)
            add_in_one_piece(part, {place: members[place] for place in places[number::groups]})
            whole.merge(pickle.loads(pickle.dumps(part)))  # as between processes

    monkeypatch.setattr(PartialSum, "add", add)


@pytest.mark.parametrize(("algorithm", "protocol"), PAIRS)
def test_groups_of_updates_make_the_same_model(
    algorithm: str, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of a server's state, and with it every row of the log."""
    scenario = scenario_of(algorithm, protocol).with_overrides(["stop.versions=2"])
    _, whole = simulated(scenario)
    disperse(monkeypatch, groups=3)

    _, parts = simulated(scenario)

    assert parts.log.fingerprint == whole.log.fingerprint
    assert largest_difference(final_weights(parts), final_weights(whole)) == 0.0


@pytest.mark.grid(3)
@pytest.mark.parametrize("algorithm", LEARNING)
def test_sums_one_after_the_other_learn_the_same(
    algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In float64: to 1e-9 of plain sums in canonical order."""
    overrides = ["dtype=float64", "stop.versions=2"]
    scenario = scenario_of(algorithm, class_of(algorithm).paper_protocol).with_overrides(overrides)
    _, tree = simulated(scenario)
    monkeypatch.setattr(PartialSum, "add", lambda whole, members: setattr(whole, "all", members))
    monkeypatch.setattr(PartialSum, "total", _plain_total)

    _, plain = simulated(scenario)

    assert largest_difference(final_weights(tree), final_weights(plain)) < 1e-9


def _plain_total(whole: PartialSum) -> Parameters:
    members: dict[int, Parameters] = whole.all  # type: ignore[attr-defined]  # put there above
    total: Parameters = {}
    for name, first in members[0].items():
        if not first.is_floating_point():
            total[name] = first
            continue
        terms: list[Tensor] = [w * members[place][name] for place, w in enumerate(whole.weights)]
        total[name] = terms[0]
        for term in terms[1:]:
            total[name] = total[name] + term
    return total


@pytest.mark.parametrize(
    "algorithm",
    [one if one == "fedavg" else pytest.param(one, marks=pytest.mark.slow) for one in LEARNING],
)
def test_groups_workers_resumes_and_reuse_make_one_file(
    algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1, 2, 3 and 7 groups with 0, 1 and 2 workers; cut off, and gone on with other ones of both;
    and with updates that another run has trained."""
    for least in ("FEWEST_FLOPS", "FEWEST_FLOPS_FOR_THREADS", "FEWEST_FLOPS_PER_JOB"):
        monkeypatch.setattr(parallel, least, 0.0)
    scenario = scenario_of(algorithm, class_of(algorithm).paper_protocol)
    store = MemoryStore()
    models: dict[object, Path] = {}
    trained: dict[object, int] = {}

    for groups, workers in ((1, 0), (2, 0), (3, 1), (7, 2)):
        disperse(monkeypatch, groups)
        run = simfl.run(scenario, tmp_path / str(groups), Options(workers=workers))
        models[groups], trained[groups] = run.path, run.manifest["counts"]["jobs_trained"]
    disperse(monkeypatch, 2)
    cut_off(scenario, tmp_path / "cut", 2, workers=1, snapshot_seconds=0.0)
    simfl.run(scenario.with_overrides([PHONES]), tmp_path / "phones", Options(store=store))
    disperse(monkeypatch, 7)
    models["cut"] = simfl.run(scenario, tmp_path / "cut", Options(workers=2), resume=True).path
    reuse = simfl.run(scenario, tmp_path / "reuse", Options(store=store))
    models["reuse"], trained["reuse"] = reuse.path, reuse.manifest["counts"]["jobs_trained"]

    assert trained["reuse"] < trained[1] == trained[7]
    assert len({(path / "model.safetensors").read_bytes() for path in models.values()}) == 1
    assert len({(path / "events.parquet").read_bytes() for path in models.values()}) == 1
