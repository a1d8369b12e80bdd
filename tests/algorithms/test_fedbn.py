"""FedBN and the perceptron that it trains: what stays with clients, and what is averaged."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from simfl.algorithms.fedbn import FedBN
from simfl.learning.job import Memory
from simfl.learning.models.mlp import Mlp
from simfl.protocols.run import Run
from tests.algorithms.made import aggregated, state_at, update_of
from tests.small import final_weights, largest_difference, simulated, small

LOCAL = {"epochs": 1, "batch_size": 16, "learning_rate": 0.05}
BATCH_NORM = {"name": "mlp", "hidden": [12, 6], "activation": "elu", "batch_norm": True}


def scenario(algorithm: str = "fedbn", versions: int = 3, **changes):
    """Three unlike clients with a normalised perceptron."""
    return small(
        algorithm={"name": algorithm, "local": LOCAL},
        model=BATCH_NORM,
        population={"clients": 3},
        stop={"versions": versions},
        **changes,
    )


def test_what_clients_send_is_averaged_plainly_and_batchnorm_stays():
    """(1/K) sum_k w_k whatever the clients' sizes; the server's BatchNorm is never touched."""
    start = state_at([0.0, 0.0])
    sent = (
        update_of(start, 0, [1.0, 0.0], loss=1.0, examples=90),
        update_of(start, 1, [0.0, 4.0], loss=1.0, examples=10),
    )
    assert aggregated(FedBN(), start, *sent) == [0.5, 2.0]

    simulation, run = simulated(scenario(versions=2))
    begin, local = run.values.begin([0, 1, 2], "cloud").value(), simulation.network.normalisation
    weights = final_weights(run)
    touched = {name for name in weights if not torch.equal(weights[name], begin.weights[name])}

    assert len(local) == 2 * 5
    assert touched == set(weights) - local


def test_a_client_is_served_its_own_batchnorm_and_the_unseen_one_the_mean_accuracy():
    """Reported accuracy: the mean over the clients' models, each with its own statistics."""
    simulation, run = simulated(scenario(versions=2))
    ref = run.publications.latest
    local = simulation.network.normalisation
    models = []
    for client in range(3):
        memory = run.values.last_job(client, float("inf")).memory()
        model = simulation.algorithm.served(ref.value(), client, memory)[0]
        assert all(torch.equal(model[name], memory.private[name]) for name in local)
        models.append(model)
    assert largest_difference(models[0], models[1]) > 0

    expected = [run.values.evaluator.metrics([model]).accuracy for model in models]

    found = run.values.evaluation(ref, float("inf"))
    assert found["accuracy"] == pytest.approx(sum(expected) / 3)
    assert simulation.algorithm.served(ref.value(), 0, Memory())[0].keys() == models[0].keys()


def test_messages_leave_batchnorm_out():
    """Bytes are those of the other tensors, each way."""
    simulation, run = simulated(scenario(versions=1))
    linear = 4 * sum(p.numel() for p in Mlp(hidden=(12, 6)).build((64,), 10).parameters())

    events = run.publications.rounds[-1]["bytes"]

    assert simulation.network.size_bytes > linear
    assert events == 3 * 2 * linear


def test_without_batchnorm_it_is_fedavg_with_equal_weights():
    """Two clients of one size: the same weights."""
    even = {"name": "digits", "partition": "iid", "test_share": 0.2}
    plain = {"model": {"name": "mlp", "hidden": [12]}, "data": even, "population": {"clients": 2}}
    scenarios = [
        small(algorithm={"name": name, "local": LOCAL}, stop={"versions": 2}, **plain)
        for name in ("fedbn", "fedavg")
    ]
    (simulation, one), (_, other) = (simulated(each) for each in scenarios)
    sizes = [len(shard) for shard in simulation.partitioned.clients]

    difference = largest_difference(final_weights(one), final_weights(other))

    assert difference == 0.0 if sizes[0] == sizes[1] else difference < 1e-3


def test_batchnorm_lies_between_linear_layers_and_their_activation():
    """linear, BatchNorm, ELU, linear, BatchNorm, ELU, linear."""
    model = Mlp(hidden=(5, 4), activation="elu", batch_norm=True).build((2, 3), 2)

    assert [type(layer) for layer in model] == [
        nn.Flatten, nn.Linear, nn.BatchNorm1d, nn.ELU, nn.Linear, nn.BatchNorm1d, nn.ELU, nn.Linear,
    ]  # fmt: skip


def test_glorots_initialisation_is_uniform_within_its_bound_with_zero_biases():
    """U(-sqrt(6 / (in + out)), sqrt(6 / (in + out))): Keras's default."""
    torch.manual_seed(0)
    model = Mlp(hidden=(390,), initialisation="glorot").build((200,), 2)
    bound = (6 / (200 + 390)) ** 0.5
    weight = model[1].weight

    assert 0.99 * bound < weight.abs().max() <= bound
    assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.02)
    assert not model[1].bias.any() and not model[3].bias.any()


def test_fedsgd_with_adam_takes_torchs_steps():
    """One full-batch gradient per client, weighted by data, and torch.optim.Adam."""
    local = {"batch_size": None, "learning_rate": 0.01}
    algorithm = {"name": "fedsgd", "local": local, "server_optimizer": "adam"}
    one = small(algorithm=algorithm, population={"clients": 3}, stop={"versions": 4})
    simulation, run = simulated(one)
    start = run.values.begin([0, 1, 2], "cloud").value().weights
    parameters = {name: tensor.clone().requires_grad_() for name, tensor in start.items()}
    reference = torch.optim.Adam(list(parameters.values()), lr=0.01)
    shards = simulation.partitioned.clients
    inputs = torch.cat([shard.inputs for shard in shards]).to(torch.float64)
    targets = torch.cat([shard.targets for shard in shards])
    for _ in range(4):
        reference.zero_grad()
        outputs, _ = simulation.network.call(parameters, inputs, training=True)
        F.cross_entropy(outputs, targets).backward()
        reference.step()

    trained = {name: tensor.detach() for name, tensor in parameters.items()}

    assert largest_difference(trained, final_weights(run)) < 1e-9
    assert largest_difference(trained, start) > 0.03


def test_adams_moments_last_from_arrival_to_arrival():
    """Mixed in whole, an update is a step: the same as where its gradient is taken in."""
    local = {"batch_size": None, "learning_rate": 0.01}
    algorithm = {"name": "fedsgd", "local": local, "server_optimizer": "adam"}
    whole = {"staleness": {"name": "constant", "value": 1.0}}

    def run_of(mixing: str) -> Run:
        protocol = {"name": "asynchronous", "concurrency": 1, "mixing": mixing}
        return simulated(small(algorithm=algorithm, protocol=protocol, decisions=whole))[1]

    ends = [run_of(mixing) for mixing in ("model", "delta")]
    mixed, added = (final_weights(run) for run in ends)

    assert largest_difference(mixed, added) < 1e-9
    state = ends[0].publications.latest.value()
    assert state.memory["moments"][2] == state.version == 3
