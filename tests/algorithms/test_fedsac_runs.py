"""FedSAC and its comparisons in whole runs: masks while training, prices, baselines, rewards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import simfl
from simfl.algorithms.fedsac import UNITS, FedSac
from simfl.assembly.assemble import assemble
from simfl.assembly.simulation import Options
from simfl.learning.batched import BatchedTrainer
from simfl.learning.minibatch import plain_loss
from simfl.learning.sequential import SequentialTrainer
from simfl.protocols.values import Values
from simfl.provenance.journal import Journal
from simfl.provenance.results import MemoryStore
from simfl.runs.execution import find_contributions, run
from simfl.scenario.scenario import Scenario
from simfl.scenario.yaml_source.error import ScenarioError
from tests.learning.training import assert_close, assert_same_bits, masks_of
from tests.small import final_weights, largest_difference, simulated, small

GIVEN = {"accuracy": [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8]}
MEASURED = {"measures": [{"name": "collaborative_fairness"}]}
CNN = {"name": "cnn", "channels": [4, 5], "hidden": [6]}
ELU = {"name": "mlp", "hidden": [12, 9], "activation": "elu"}
MLP = {"name": "mlp", "hidden": [12, 9]}
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "momentum": {"momentum": 0.9, "weight_decay": 0.1},
    "adam": {"optimizer": "adam", "learning_rate": 0.01, "weight_decay": 0.1},
    "kept": {"optimizer": "adam", "learning_rate": 0.01, "keep_optimizer": True},
}


def scenario(algorithm: str = "fedsac", **changes: Any) -> Scenario:
    """The small scenario with validation data and given contributions."""
    local = {"epochs": 1, "batch_size": 16, "learning_rate": 0.1, **changes.pop("local", {})}
    settings = {"contributions": GIVEN, **changes.pop("settings", {})}
    return small(
        data=changes.pop("data", {"validation_share": 0.2}),
        algorithm={"name": algorithm, "local": local, **settings},
        **{"model": MLP, **changes},
    )


@pytest.mark.grid(3)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", [MLP, ELU, CNN], ids=["mlp", "elu", "cnn"])
@pytest.mark.parametrize("mask", ["structured", "incoming"])
def test_what_a_submodel_lacks_stays_exactly_zero(
    model: dict[str, Any], optimizer: str, mask: str
) -> None:
    """Under momentum, weight decay and Adam, batched and one by one, which agree within 1e-9."""
    one = scenario(
        model=model,
        local=OPTIMIZERS[optimizer],
        settings={"beta": 3.0, "mask": mask},
        data={"validation_share": 0.7},  # that much less to train on
    )
    simulation, finished = simulated(one)
    values = finished.values
    assert isinstance(values, Values)
    algorithm = simulation.algorithm
    assert isinstance(algorithm, FedSac)
    ref = finished.publications.latest
    assert ref is not None

    found = {}
    for kind in (BatchedTrainer, SequentialTrainer):
        values.trainer = kind(simulation.network, simulation.partitioned.clients, plain_loss)
        clients = finished.all_clients
        futures = values.submit(clients, clients * 0 + 9, ref, clients * 0)
        found[kind] = [future.result() for future in futures]

    lacking = 0
    for fast, slow in zip(found[BatchedTrainer], found[SequentialTrainer], strict=True):
        assert_close(fast, slow)
        masks = masks_of(simulation.network, fast.brief.own[UNITS], outgoing=mask == "structured")
        for update in (fast, slow):
            for name, tensor in update.payload.items():
                assert bool((tensor[~masks[name]] == 0).all()), name
        lacking += sum(int((~held).sum()) for held in masks.values())
    assert lacking > 100


@pytest.mark.parametrize("algorithm", ["fedsac", "cgsv", "fedave", "cffl"])
def test_trainers_agree_on_whole_runs(algorithm: str) -> None:
    """Three rounds in double precision: batched and sequential within 1e-9."""
    _, fast = simulated(scenario(algorithm))
    _, slow = simulated(scenario(algorithm), trainer="sequential")

    assert largest_difference(final_weights(fast), final_weights(slow)) < 1e-9


@pytest.mark.grid(2)
@pytest.mark.parametrize("algorithm", ["fedsac", "cgsv", "fedave", "cffl"])
def test_an_interrupted_run_goes_on_to_the_same_end(algorithm: str, tmp_path: Path) -> None:
    """Models of clients, reputations and importances come back from the snapshot."""
    one = scenario(algorithm, stop={"versions": 5}, settings={"contributions": {"rounds": 2}})

    def interrupt(progress: Any) -> None:
        if progress.version == 3:
            raise KeyboardInterrupt

    whole = run(one, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(one, tmp_path / "cut", Options(watch=interrupt, snapshot_seconds=0))
    resumed = run(one, tmp_path / "cut", resume=True)

    assert resumed.manifest["fingerprint"] == whole.manifest["fingerprint"]
    left, right = (
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "cut")
    )
    assert left == right
    assert resumed.manifest["counts"]["jobs_trained"] < whole.manifest["counts"]["jobs_trained"]
    assert resumed.clients["contribution"].equals(whole.clients["contribution"])


def test_bytes_work_and_time_are_those_of_the_submodel(tmp_path: Path) -> None:
    """Less reputation: fewer bytes both ways, fewer cycles, and an earlier end on equal devices."""
    population = {
        "name": "catalogue",
        "clients": 8,
        "edges": 2,
        "groups": [{"device": "rpi_4b", "link": "wifi5_ac", "share": 1.0}],
    }
    one = scenario(
        population=population,
        data={"name": "digits", "partition": "iid", "validation_share": 0.2},
        settings={"beta": 3.0},
        stop={"versions": 1},
    )

    result = run(one, tmp_path / "run")

    report = result.details("report").iloc[0]
    sent = result.events[result.events["kind"] == "upload"].sort_values("client")
    got = result.events[result.events["kind"] == "download"].sort_values("client")
    work = result.details("compute").sort_values("client")
    expected = [4 * values for values in report["kept_parameters"]]
    assert sent["bytes"].tolist() == got["bytes"].tolist() == expected
    assert expected == sorted(expected)
    assert expected[0] < expected[-1] == 4 * (64 * 12 + 12 + 12 * 9 + 9 + 9 * 10 + 10)
    per_example = (work["cycles"].to_numpy() / result.clients["num_examples"]).to_numpy()
    k1, k2 = report["kept_units"][0]
    share = (64 * k1 + k1 * k2 + k2 * 10) / (64 * 12 + 12 * 9 + 9 * 10)
    assert per_example[0] / per_example[-1] == pytest.approx(share)
    assert sent["time_s"].iloc[0] < sent["time_s"].iloc[-1]


def test_contributions_are_those_of_a_standalone_run(tmp_path: Path) -> None:
    """The baseline is a run of its own, beside the run, that the same scenario gives alone."""
    one = scenario(settings={"contributions": {"rounds": 4}}, evaluate=MEASURED)

    result = run(one, tmp_path / "run")

    baseline = simfl.load_run(tmp_path / "run" / "standalone")
    alone = simfl.run(tmp_path / "run" / "standalone" / "scenario.yaml", tmp_path / "alone")
    last = alone.evaluations[alone.evaluations["client"] >= 0]
    assert baseline.manifest["counts"]["versions"] == 4
    assert result.clients["contribution"].tolist() == last["accuracy"].tolist()
    fact = result.manifest["contributions"]
    assert fact["energy_j"] == baseline.manifest["energy_j"] > 0
    assert fact["time_s"] == baseline.manifest["horizon_s"] > 0
    assert 0 <= result.manifest["measures"]["collaborative_fairness"]["bounded_share"] <= 1


def test_baselines_are_shared_where_data_and_recipe_are(tmp_path: Path) -> None:
    """Other hardware and another algorithm look contributions up; another recipe does not."""
    store = MemoryStore()

    def found(**changes: Any) -> tuple[list[float], int]:
        one = scenario(**{"settings": {"contributions": {"rounds": 2}}, **changes})
        trained: list[int] = []

        def counted(baseline: Any) -> Any:
            trained.append(1)
            return find_contributions(baseline)

        simulation = assemble(one, Options(device="cpu", store=store))
        made = simulation.make_run(None, Journal(shared=store), find_contributions=counted)
        assert isinstance(made.values, Values)
        assert made.values.contributions is not None
        return made.values.contributions.accuracy, len(trained)

    first, count = found()
    slower = {"name": "catalogue", "clients": 8, "edges": 2}
    groups = [{"device": "rpi_5", "link": "lte_2021", "share": 1.0}]

    assert count == 1
    assert found(population={**slower, "groups": groups}) == (first, 0)
    assert found(algorithm="cgsv") == (first, 0)
    assert found(local={"epochs": 2})[1] == 1
    assert found(seed=4)[1] == 1


def test_contributions_do_not_depend_on_what_goes_wrong(tmp_path: Path) -> None:
    """Clients that are away, crash, run empty or lose messages train alone as if they did not."""
    crashes = {"works": {"mean_s": 0.05}, "broken": {"mean_s": 0.1}}
    troubles = {
        "availability": {"name": "periodic", "period_s": 0.2, "share": 0.5},
        "leaving": "abort",
        "faults": {"clients": crashes},
        "batteries": {"initial": [1e-6, 1e-5], "lowest": 1e-6, "charge_w": 0.0},
        "message_loss": {"probability": 0.2, "timeout_s": 0.02},
    }
    found = []
    for name, population in (("calm", {}), ("troubled", troubles)):
        one = scenario(settings={"contributions": {"rounds": 2}}, population=population)
        found.append(run(one, tmp_path / name))

    calm, troubled = (one.clients["contribution"].tolist() for one in found)
    assert calm == troubled
    assert found[0].manifest["fingerprint"] != found[1].manifest["fingerprint"]


@pytest.mark.parametrize("algorithm", ["fedavg", "moon"])
def test_equal_models_are_scored_after_one_more_epoch(algorithm: str, tmp_path: Path) -> None:
    """Rewards differ, and cost no simulated time; MOON's loss looks at its own tensors."""
    plain = run(scenario(algorithm), tmp_path / "plain")
    result = run(scenario(algorithm, evaluate=MEASURED), tmp_path / "run")

    assert result.manifest["fingerprint"] == plain.manifest["fingerprint"]
    assert result.clients["reward_accuracy"].nunique() > 1
    assert result.manifest["measures"]["collaborative_fairness"]["reward_max"] > 0.2


def test_personal_models_are_scored_as_they_are(tmp_path: Path) -> None:
    """What CGSV's clients are rewarded with is what the last evaluation saw."""
    result = run(scenario("cgsv", evaluate=MEASURED), tmp_path / "run")

    last = result.evaluations[result.evaluations["version"] == 3]
    scored = last[last["client"] >= 0].sort_values("client")["accuracy"]
    assert result.clients["reward_accuracy"].tolist() == scored.tolist()


def test_an_ensemble_is_scored_as_it_is(tmp_path: Path) -> None:
    """All players of FL Games are rewarded with their ensemble, which trains no further epoch."""
    local = {"optimizer": "adam", "learning_rate": 1e-3}
    result = run(scenario("fl_games", local=local, evaluate=MEASURED), tmp_path / "run")

    assert set(result.clients["reward_accuracy"]) == {result.rounds["accuracy"].iloc[-1]}


def test_reputations_reach_edge_servers() -> None:
    """Under edge servers only the best of all clients has the whole model, not each edge's best."""
    one = scenario(protocol={"name": "hierarchical", "edge_rounds": 2}, settings={"beta": 3.0})

    simulation, finished = simulated(one)

    ref = finished.publications.latest
    assert ref is not None
    algorithm, network = simulation.algorithm, simulation.network
    kept = [algorithm.brief(network, ref.value(), i, -1).own[UNITS] for i in range(8)]
    assert [bool(units.all()) for units in kept] == [False] * 7 + [True]
    assert set(ref.value().memory["contributions"]) == set(range(8))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": {"validation_share": 0.0}}, "validation_share"),
        ({"model": "linear"}, "no hidden layer"),
        ({"settings": {"contributions": {"accuracy": [0.5]}}}, "one for each of 8 clients"),
        (
            {"settings": {"contributions": None}, "stop": {"time_s": 1.0}},
            "rounds of standalone training",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_the_run(changes: dict[str, Any], message: str) -> None:
    """The error names the key to blame."""
    data = changes.pop("data", None)
    one = scenario(**changes)
    if data:
        one = one.with_overrides(["data.validation_share=0.0"])
    if "stop" in changes:
        one = Scenario.from_mapping({**one.as_mapping(), "stop": changes["stop"]})

    with pytest.raises(ScenarioError, match=message):
        simulated(one)


@pytest.mark.parametrize("algorithm", ["cgsv", "fedave", "cffl"])
def test_rewards_from_one_round_are_refused_without_rounds(algorithm: str) -> None:
    """An update at a time has nothing to be compared with; the reason says so."""
    for protocol, reason in (("asynchronous", "updates of a round"), ("buffered", "would undo")):
        with pytest.raises(ScenarioError, match=reason):
            simulated(scenario(algorithm, protocol=protocol))


def test_same_bits_in_any_company() -> None:
    """Masked jobs trained alone and together."""
    one = scenario(model=CNN, dtype="float32", settings={"beta": 3.0})
    simulation, finished = simulated(one)
    values, ref = finished.values, finished.publications.latest
    assert isinstance(values, Values)
    assert ref is not None
    clients = finished.all_clients
    results = []
    for cap in (None, 1, 3):
        shards = simulation.partitioned.clients
        values.trainer = BatchedTrainer(simulation.network, shards, plain_loss, cohort_cap=cap)
        results.append(
            [job.result() for job in values.submit(clients, clients * 0 + 9, ref, clients * 0)]
        )

    for row in zip(*results, strict=True):
        assert_same_bits(row[0], row[1])
        assert_same_bits(row[0], row[2])
    assert torch.isfinite(results[0][0].payload["0.weight"]).all()


@pytest.mark.parametrize("protocol", ["synchronous", "hierarchical", "buffered"])
def test_without_reputations_it_is_averaging(protocol: str) -> None:
    """beta 0 serves everybody the whole model: FedAvg with equal weights, under any protocol."""
    names = {"hierarchical": {"edge_rounds": 2}, "buffered": {"buffer": 3, "concurrency": 5}}
    part = {"name": protocol, **names.get(protocol, {})}

    _, fair = simulated(scenario(protocol=part, settings={"beta": 0.0}))
    _, plain = simulated(scenario("fedavg", protocol=part, settings={"weights": "uniform"}))

    assert largest_difference(final_weights(fair), final_weights(plain)) < 1e-12
