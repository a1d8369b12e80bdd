"""FedRep against a loop from its paper."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfl.algorithms.fedrep import FedRep
from simfl.assembly.assemble import assemble
from simfl.learning.job import LocalTraining
from simfl.scenario.yaml_source.error import ScenarioError
from tests.algorithms.loops import CLIENTS, RATE, Loop, Weights, against, paid, scenario
from tests.small import largest_difference, simulated

HEAD, PHI = ("3.weight", "3.bias"), ("1.weight", "1.bias")
LOCAL = {"epochs": 2, "batch_size": 8, "learning_rate": RATE}


def loop(given: Loop) -> tuple[Weights, dict[int, Weights]]:
    """Algorithm 1: three passes for the head, two for the representation; the heads beside."""
    weights, heads, lengths = given.weights, {}, set()
    for version, chosen in enumerate(given.rounds):
        sent = []
        for i in chosen:
            model = {**weights, **heads.get(i, {})}
            batches = given.drawn[version, i]
            lengths.add(len(batches))
            for number, rows in enumerate(batches):
                slope = given.slope(model, i, rows)
                for name in HEAD if number < len(batches) // 5 * 3 else PHI:
                    model[name] = model[name] - RATE * slope[name]
            heads[i] = {name: model[name] for name in HEAD}
            sent.append(model)
        phi = {name: sum(one[name] for one in sent) / len(sent) for name in PHI}
        weights = {**weights, **phi}
    assert len(lengths) > 1  # so that some still train their head while others have gone on
    return weights, heads


def test_fedrep_is_what_its_paper_says(tmp_path: Path) -> None:
    """The representation, and every client's head, which leaves it in no message."""
    part = {"name": "fedrep", "head_epochs": 3, "local": LOCAL}

    run, (_, heads) = against(loop, part, tmp_path)

    assert run.publications.latest is not None
    state = run.publications.latest.value()
    for client in range(CLIENTS):
        job = run.values.last_job(client, float("inf"))
        assert (job is None) == (client not in heads)
        if job is not None:
            assert largest_difference(job.memory().private, heads[client]) < 1e-9
            [served] = run.values.algorithm.served(state, client, job.memory())
            assert served["3.bias"] is job.memory().private["3.bias"]
            assert served["1.bias"] is state.weights["1.bias"]


def test_the_representation_crosses_and_phases_cost_what_they_pass_back(tmp_path: Path) -> None:
    """64-12-10: of 888 weights 120 are the head's; 13 + 13 s and 2 (3 - s) units, not 3 each."""
    simulation, _ = simulated(scenario({"name": "fedrep", "local": LOCAL}), tmp_path / "rep")
    plain = {**LOCAL, "epochs": 12}
    simulated(scenario({"name": "fedavg", "local": plain}), tmp_path / "avg")
    rep, avg = paid(tmp_path / "rep"), paid(tmp_path / "avg")

    head = 4 * (12 * 10 + 10)
    size = simulation.network.size_bytes
    for way in ("download", "upload"):
        assert rep[way] / avg[way] == pytest.approx((size - head) / size)
    share = 130 / 888
    units = 10 * (1 + share) + 2 * (3 - share)
    assert rep["cycles"] / avg["cycles"] == pytest.approx(units / 36)


def test_what_does_not_fit_is_refused() -> None:
    """Steps, momentum, a head that is not there, and one that is the whole model."""
    with pytest.raises(ValueError, match="whole epochs"):
        FedRep(LocalTraining(steps=3))
    with pytest.raises(ValueError, match="would move fixed parameters"):
        FedRep(LocalTraining(momentum=0.5))
    for changes in ({"algorithm": {"head": "hed"}}, {"model": "linear"}):
        own = changes.pop("algorithm", {})
        with pytest.raises(ScenarioError, match="accepted: a module with parameters"):
            assemble(scenario({"name": "fedrep", "local": LOCAL, **own}, **changes))
