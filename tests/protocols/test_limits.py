"""Where two ways of computing the same thing must agree."""

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F

from simfl.learning.job import Brief, LocalTraining, Memory, Price, Recipe, Update
from tests.small import SEMI_ASYNCHRONOUS, final_weights, largest_difference, simulated, small


def test_synchronous_fedavg_equals_a_loop_written_from_the_paper():
    """Three rounds equal McMahan's Algorithm 1 in plain torch, to 1e-9 in float64."""
    simulation, run = simulated(small())
    streams = run.values._streams
    shards = [
        (shard.inputs.double().flatten(1), shard.targets)
        for shard in simulation.partitioned.clients
    ]
    sizes = np.array([len(targets) for _, targets in shards])
    weights = {k: v.clone() for k, v in simulation.network.initial(streams.seed("model")).items()}
    names = list(weights)

    for round_number in range(3):
        locals_ = []
        for client, (inputs, targets) in enumerate(shards):
            w = [weights[name].clone().requires_grad_() for name in names]
            generator = torch.Generator().manual_seed(streams.seed("job", client, round_number))
            for rows in torch.randperm(len(targets), generator=generator).split(16):
                hidden = F.relu(F.linear(inputs[rows], w[0], w[1]))
                loss = F.cross_entropy(F.linear(hidden, w[2], w[3]), targets[rows])
                for tensor, gradient in zip(w, torch.autograd.grad(loss, w), strict=True):
                    tensor.data -= 0.1 * gradient
            locals_.append(w)
        weights = {
            name: sum(n / sizes.sum() * w[i].detach() for n, w in zip(sizes, locals_, strict=True))
            for i, name in enumerate(names)
        }

    assert largest_difference(final_weights(run), weights) < 1e-9


def test_fedprox_without_proximal_term_is_fedavg():
    """mu = 0 gives FedAvg's weights exactly; mu > 0 does not."""
    local = {"epochs": 1, "batch_size": 16, "learning_rate": 0.1}

    fedavg = final_weights(simulated(small())[1])
    without = final_weights(
        simulated(small(algorithm={"name": "fedprox", "mu": 0.0, "local": local}))[1]
    )
    with_term = final_weights(
        simulated(small(algorithm={"name": "fedprox", "mu": 1.0, "local": local}))[1]
    )

    assert largest_difference(fedavg, without) < 1e-12
    assert largest_difference(fedavg, with_term) > 1e-4


def test_one_full_batch_step_of_fedavg_is_fedsgd():
    """FedAvg with one full-batch step and FedSGD are the same algorithm."""
    local = {"epochs": 1, "batch_size": None, "learning_rate": 0.1}

    fedavg = final_weights(simulated(small(algorithm={"name": "fedavg", "local": local}))[1])
    fedsgd = final_weights(simulated(small(algorithm={"name": "fedsgd", "local": local}))[1])

    assert largest_difference(fedavg, fedsgd) < 1e-12


def test_one_edge_and_share_one_is_synchronous():
    """Semi-asynchronous with one edge, one edge round and share 1: the same learned values, and the
    same time except for the hop between edge and cloud and the cloud's merge.
    """
    flat = simulated(small(population={"edges": 1}))[1]
    hierarchical = simulated(
        small(
            population={"edges": 1},
            protocol={**SEMI_ASYNCHRONOUS, "edge_rounds": 1},
            decisions={"staleness": {"name": "constant", "value": 1.0}},
        )
    )[1]

    assert largest_difference(final_weights(flat), final_weights(hierarchical)) < 1e-12
    clients = slice(0, 8)
    for kind in ("download", "compute", "upload"):
        column = flat.accounts.kinds.index(kind)
        np.testing.assert_allclose(
            flat.accounts.seconds[clients, column],
            hierarchical.accounts.seconds[clients, column],
            rtol=1e-12,
        )
    hop_s = [
        hierarchical.accounts.seconds[actor, hierarchical.accounts.kinds.index(kind)]
        for actor, kind in (
            (hierarchical.actors.edge(0), "download"),
            (hierarchical.actors.edge(0), "upload"),
            (hierarchical.actors.edge(0), "edge_aggregate"),
            (hierarchical.actors.cloud, "cloud_aggregate"),
        )
    ]
    serving_s = flat.accounts.seconds[
        flat.actors.cloud, flat.accounts.kinds.index("cloud_aggregate")
    ]
    expected_s = flat.clock.now_s - serving_s + sum(hop_s)
    np.testing.assert_allclose(hierarchical.clock.now_s, expected_s, rtol=1e-12)


def test_one_client_is_local_training():
    """FedAvg over a single client is that client training alone."""
    local = {"epochs": 1, "batch_size": 16, "learning_rate": 0.1}
    one = {"clients": 1, "edges": 1}
    data = {"name": "digits", "partition": "iid"}

    fedavg = simulated(small(population=one, data=data))[1]
    alone = simulated(
        small(population=one, data=data, algorithm={"name": "standalone", "local": local})
    )[1]

    job = alone.values.last_job(0, alone.clock.now_s)
    assert largest_difference(final_weights(fedavg), job.memory().private) < 1e-12


def test_a_late_model_counts_less(tmp_path):
    """The share of each merge is initial * base^staleness, and moves the model by that share."""
    run = simulated(
        small(
            protocol=SEMI_ASYNCHRONOUS,
            decisions={"staleness": {"name": "exponential", "initial": 0.5, "base": 0.5}},
            stop={"versions": 2},
        ),
        tmp_path,
    )[1]

    events = pd.read_parquet(tmp_path / "events.parquet")
    merges = events[events["kind"] == "cloud_aggregate"]

    assert [row["staleness"] for row in run.publications.rounds] == [0, 1]
    assert merges["staleness"].tolist() == [0, 1]
    assert merges["value"].tolist() == [0.5, 0.25]


EQUAL = {
    "name": "paper",
    "clients": 6,
    "edges": 2,
    "cycles_per_example": [1e7, 1e7],
    "frequency_max_hz": [1e9, 1e9],
    "access_bps": [1e7, 1e7],
    "noise": 0.0,
}
EQUAL_DATA = {"name": "synthetic", "examples": 60, "partition": "iid"}
FRESH = {"staleness": {"name": "constant", "value": 1.0}}


def test_hierarchical_with_one_edge_round_is_fedavg():
    """HierFAVG with kappa_2 = 1 averages averages weighted by data: FedAvg; with two it is not."""
    flat = simulated(small())[1]
    once, twice = (
        simulated(small(protocol={"name": "hierarchical", "edge_rounds": rounds}))[1]
        for rounds in (1, 2)
    )

    assert largest_difference(final_weights(flat), final_weights(once)) < 1e-12
    assert largest_difference(final_weights(flat), final_weights(twice)) > 1e-4


def test_a_full_buffer_of_equal_clients_is_synchronous():
    """Equal devices and shards, a buffer for all, step 1, no staleness weight: FedAvg."""
    common = {"population": EQUAL, "data": EQUAL_DATA}
    buffer = {"name": "buffered", "buffer": 6}

    synchronous = simulated(small(**common))[1]
    buffered = simulated(small(**common, protocol=buffer, decisions=FRESH))[1]
    half = simulated(
        small(**common, protocol={**buffer, "server_learning_rate": 0.5}, decisions=FRESH)
    )[1]

    assert [row["staleness"] for row in buffered.publications.rounds] == [0, 0, 0]
    assert largest_difference(final_weights(synchronous), final_weights(buffered)) < 1e-12
    assert synchronous.clock.now_s == pytest.approx(buffered.clock.now_s, rel=1e-12)
    assert largest_difference(final_weights(synchronous), final_weights(half)) > 1e-6


def test_a_buffer_of_one_is_delta_fedasync():
    """FedBuff with K = 1 and FedAsync that adds changes are the same, staleness and all."""
    common = {"stop": {"versions": 9}, "decisions": {"staleness": "exponential"}}

    buffered = simulated(small(**common, protocol={"name": "buffered", "buffer": 1}))[1]
    delta = simulated(small(**common, protocol={"name": "asynchronous", "mixing": "delta"}))[1]
    model = simulated(small(**common, protocol={"name": "asynchronous", "mixing": "model"}))[1]

    assert max(row["staleness"] for row in delta.publications.rounds) > 0
    assert largest_difference(final_weights(buffered), final_weights(delta)) == 0.0
    assert largest_difference(final_weights(model), final_weights(delta)) > 1e-6


@pytest.mark.parametrize("staleness", ["exponential", "polynomial"])
def test_without_staleness_mixing_models_or_changes_is_the_same(staleness):
    """One client in flight is never stale: theta + a (theta_i - theta), FedBuff's K = 1 too."""
    protocols = [
        {"name": "asynchronous", "mixing": "model"},
        {"name": "asynchronous", "mixing": "delta"},
        {"name": "buffered", "buffer": 1},
    ]

    model, *deltas = (
        simulated(
            small(
                protocol={**protocol, "concurrency": 1},
                decisions={"staleness": staleness},
                stop={"versions": 6},
            )
        )[1]
        for protocol in protocols
    )

    for run in deltas:
        assert [row["staleness"] for row in run.publications.rounds] == [0] * 6
        assert run.log.fingerprint == model.log.fingerprint
        assert largest_difference(final_weights(run), final_weights(model)) < 1e-12


def scheduled(**scheduling):
    """A run of ten clients on five edge servers, by FedCure's association and one schedule."""
    return simulated(
        small(
            data={"partition": {"name": "labels_per_edge", "labels_per_client": 2}},
            population={"name": "paper", "clients": 10, "edges": 5},
            protocol={"name": "semi_asynchronous", "edge_rounds": 1, "concurrency": 2},
            decisions={
                "association": "fedcure",
                "allocation": "fedcure",
                "scheduling": {**scheduling, "participation": 0.6},
            },
            stop={"versions": 25},
            evaluate={"every": 25},
        )
    )[1]


def test_fedfair_is_fedcure_that_does_not_look_at_speed():
    """beta = 0 leaves the queues: every event and every weight is that of the rule `fair`."""
    fair, indifferent, fedcure = (
        scheduled(**one)
        for one in (
            {"name": "fair"},
            {"name": "fedcure", "beta": 0.0},
            {"name": "fedcure", "beta": 5.0},
        )
    )

    assert fair.log.fingerprint == indifferent.log.fingerprint
    assert largest_difference(final_weights(fair), final_weights(indifferent)) == 0.0
    assert fair.log.fingerprint != fedcure.log.fingerprint


def test_a_stale_change_is_added_to_the_current_weights():
    """An update rebased with a share moves the weights by share times its own change."""
    start, end, now = ({"w": torch.tensor([value])} for value in (1.0, 3.0, 10.0))
    brief = Brief(start, Recipe(LocalTraining()), Price(0, 0))
    update = Update(0, brief, end, Memory(), num_examples=1, version=0)

    assert update.rebased(now, share=0.5).payload["w"].item() == 11.0
    assert update.rebased(now, 0.5, statistics=("w",)).payload["w"].item() == 6.5


@pytest.mark.parametrize(
    "protocol",
    [
        {"name": "asynchronous", "mixing": "delta"},
        {"name": "synchronous", "patience": {"over_selection": 2.0, "late": "carry_over"}},
        {"name": "buffered", "buffer": 2, "server_learning_rate": 3.0},
    ],
    ids=lambda one: one["name"],
)
def test_running_statistics_of_stale_updates_lie_between_those_of_models(protocol):
    """All variances fall from 1 to some 0.3: added up, or stretched, those falls end below 0."""
    local = {"epochs": 3, "batch_size": 16, "learning_rate": 0.05}
    _, run = simulated(
        small(
            algorithm={"local": local},
            model={"name": "mlp", "hidden": [12], "batch_norm": True},
            data={"partition": "iid"},
            protocol=protocol,
            decisions={"staleness": {"name": "constant", "value": 1.0}},
            stop={"versions": 6},
        )
    )

    variances = [t for name, t in final_weights(run).items() if "running_var" in name]
    assert variances and all(bool((one > 0.01).all()) for one in variances)
