"""What algorithms need of one client: corrections, a second model, features, counted steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from simfl.learning.batched import BatchedTrainer
from simfl.learning.job import LocalTraining, Recipe, Update
from simfl.learning.minibatch import Minibatch
from simfl.learning.network import Network
from simfl.learning.objective import Objective
from simfl.learning.parameters import Parameters, squared_distance
from simfl.learning.sequential import SequentialTrainer
from simfl.learning.trainer import Loss, Trainer
from tests.learning.training import (
    IMAGE,
    SIZES,
    assert_close,
    assert_same_bits,
    network,
    plain_loss,
    shards,
    submit,
    traced_loss,
)

LOCAL = LocalTraining(epochs=2, batch_size=8, learning_rate=0.1)
OPTIMIZERS = {
    "sgd": LOCAL,
    "momentum": LocalTraining(
        steps=5, batch_size=8, learning_rate=0.05, momentum=0.9, weight_decay=0.01
    ),
    "adam": LocalTraining(epochs=1, batch_size=8, optimizer="adam", keep_optimizer=True),
}
PERSONAL = "personal/"
PROXIMAL = 0.4


def correction_of(net: Network, client: int) -> Parameters:
    """Random tensors of one client, for all parameters but the first."""
    generator = torch.Generator().manual_seed(client)
    return {
        name: 0.1 * torch.randn(net.template[name].shape, generator=generator, dtype=net.dtype)
        for name in net.parameter_names[1:]
    }


def trained(trainer: Trainer, recipe: Recipe, order: int = 1) -> list[Update]:
    """A corrected job of every client; submitted in this order, given in that of the clients."""
    clients = range(len(SIZES))[::order]
    futures = {
        client: submit(trainer, client, recipe, correction=correction_of(trainer.network, client))
        for client in clients
    }
    return [futures[client].result() for client in range(len(SIZES))]


def smuggled_loss(parameters: Parameters, batch: Minibatch) -> Tensor:
    """The plain loss, a linear term with the briefs' own tensors for a slope, a quadratic one."""
    terms = [(batch.own[name] * parameters[name]).flatten(1).sum(1) for name in batch.own]
    near = PROXIMAL / 2 * squared_distance(parameters, batch.start)
    return plain_loss(parameters, batch) + torch.stack(terms).sum(0) + near


def contrast(parameters: Parameters, batch: Minibatch) -> Tensor:
    """How near the features come to those of the start, as in MOON, and a shared one's."""
    outputs, features = batch.features(parameters, batch.inputs)
    before = batch.features(batch.start, batch.inputs)[1].detach()
    near = functional.cosine_similarity(features.flatten(2), before.flatten(2), dim=-1)
    return batch.mean_loss(outputs) + (near * batch.valid).sum(-1) / batch.valid.sum(-1)


def two_models(parameters: Parameters, batch: Minibatch) -> Tensor:
    """Ditto: the shared model's loss, and the personal one's, which is kept near the start."""
    own = {
        name: parameters[PERSONAL + name] for name in parameters if PERSONAL + name in parameters
    }
    personal = batch.mean_loss(batch.forward(own, batch.inputs))
    shared = batch.mean_loss(batch.forward(parameters, batch.inputs))
    return shared + personal + 0.05 * squared_distance(own, batch.start)


@pytest.mark.parametrize(
    ("model", "loss"),
    [("relu_mlp", plain_loss), ("bn_mlp", traced_loss)],
    ids=["by_hand", "autograd"],
)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_corrections_and_proximal_are_terms_of_the_loss(
    model: str, optimizer: str, loss: Loss
) -> None:
    """Linear and quadratic ones, under every optimizer, in both trainers, to 1e-9 in float64."""
    net, recipe = network(model), Recipe(OPTIMIZERS[optimizer])
    smuggling = SequentialTrainer(net, shards(), smuggled_loss)
    futures = [submit(smuggling, one, recipe, own=correction_of(net, one)) for one in range(8)]
    expected = [future.result() for future in futures]

    recipe = replace(recipe, proximal=PROXIMAL)
    for trainer in (SequentialTrainer(net, shards(), loss), BatchedTrainer(net, shards(), loss)):
        for update, other in zip(trained(trainer, recipe), expected, strict=True):
            assert_close(update, other)


@pytest.mark.parametrize("trainer_class", [SequentialTrainer, BatchedTrainer])
def test_a_parameter_that_the_loss_does_not_know_is_corrected(
    trainer_class: type[Trainer],
) -> None:
    """Its gradient is the correction alone: so many steps of it, at the learning rate."""
    net = network("linear")

    def constant(parameters: Parameters, batch: Minibatch) -> Tensor:
        return parameters["1.weight"].flatten(1).sum(1)

    update, *_ = trained(trainer_class(net, shards(), constant), Recipe(LOCAL))

    moved = -LOCAL.learning_rate * update.steps * correction_of(net, 0)["1.bias"]
    torch.testing.assert_close(update.delta["1.bias"], moved, rtol=0, atol=1e-12)


@pytest.mark.parametrize("trainer_class", [SequentialTrainer, BatchedTrainer])
def test_masked_entries_are_not_corrected(trainer_class: type[Trainer]) -> None:
    """What may not change keeps its bits."""
    net = network("relu_mlp")
    mask = (torch.arange(13) % 3 > 0).double()
    correction = {"1.bias": torch.ones(13, dtype=torch.float64)}
    trainer = trainer_class(net, shards(), plain_loss)

    future = submit(trainer, 0, Recipe(LOCAL), own={"mask/1.bias": mask}, correction=correction)

    assert torch.equal(future.result().delta["1.bias"] != 0, mask != 0)


@pytest.mark.parametrize(
    ("model", "loss"),
    [
        ("relu_mlp", plain_loss),
        ("bn_mlp", plain_loss),
        ("mlp", contrast),
        ("cnn", contrast),
        ("viewing", two_models),
    ],
)
def test_company_changes_no_bit_of_it(model: str, loss: Loss) -> None:
    """Corrections, pulls, features, second models: the same float32 in groups of 1, 3 and all."""
    net = network(model, torch.float32)
    recipe = replace(recipe_for(net, loss), proximal=PROXIMAL)
    results = []
    for cap, order in ((1, 1), (3, -1), (1000, -1)):
        trainer = BatchedTrainer(net, shards(), loss, cohort_cap=cap)
        results.append(jobs(trainer, recipe, order))

    for result in results[1:]:
        for update, expected in zip(result, results[0], strict=True):
            assert_same_bits(update, expected)


def recipe_for(net: Network, loss: Callable[..., Tensor]) -> Recipe:
    """Plain training, beside a second model where the loss has one."""
    names = net.parameter_names if loss is two_models else ()
    return Recipe(LOCAL, beside=frozenset(PERSONAL + name for name in names))


def jobs(trainer: Trainer, recipe: Recipe, order: int = 1) -> list[Update]:
    """Two chained jobs of every client, corrected, from one start; the updates by client."""
    first = trainer.network.initial(5)
    first |= {name: first[name.removeprefix(PERSONAL)] for name in recipe.beside}
    chains = {}
    for client in range(len(SIZES))[::order]:
        given = {"start": first, "correction": correction_of(trainer.network, client)}
        one = submit(trainer, client, recipe, **given)
        chains[client] = one, submit(trainer, client, recipe, previous=one, number=1, **given)
    return [future.result() for client in range(len(SIZES)) for future in chains[client]]


@pytest.mark.parametrize(
    ("model", "loss"),
    [
        ("linear", contrast),
        ("bn_cnn", contrast),
        ("residual", contrast),
        ("viewing", two_models),
        ("cnn", two_models),
    ],
)
def test_features_and_second_models_are_the_same_in_both_trainers(model: str, loss: Loss) -> None:
    """To 1e-9 in float64, over two rounds."""
    net = network(model)
    recipe = recipe_for(net, loss)
    expected = jobs(SequentialTrainer(net, shards(), loss), recipe)

    updates = jobs(BatchedTrainer(net, shards(), loss), recipe)

    for update, other in zip(updates, expected, strict=True):
        assert_close(update, other)


@pytest.mark.parametrize("trainer_class", [SequentialTrainer, BatchedTrainer])
def test_a_second_model_stays_with_the_client_and_leaves_the_first_alone(
    trainer_class: type[Trainer],
) -> None:
    """The payload is the same as without it; the next job starts from its last state."""
    net = network("mlp")
    alone = trainer_class(net, shards(), traced_loss)
    both = trainer_class(net, shards(), two_models)

    first, second = jobs(both, recipe_for(net, two_models))[:2]
    plain = jobs(alone, Recipe(LOCAL))[0]

    assert first.payload.keys() == set(net.parameter_names)
    for name, tensor in plain.payload.items():
        torch.testing.assert_close(first.payload[name], tensor, rtol=0, atol=1e-12)
    kept, later = first.memory.private, second.memory.private
    assert kept.keys() == {PERSONAL + name for name in net.parameter_names}
    origin = net.initial(5)
    for name in net.parameter_names:
        moved = (later[PERSONAL + name] - kept[PERSONAL + name]).norm()
        assert 0 < moved < 2 * (kept[PERSONAL + name] - origin[name]).norm()
        assert not torch.equal(kept[PERSONAL + name], first.payload[name])


@pytest.mark.parametrize("trainer_class", [SequentialTrainer, BatchedTrainer])
def test_features_are_what_enters_a_layer(trainer_class: type[Trainer]) -> None:
    """By name, or before the head; its outputs are those of a pass without looking."""
    net, seen = network("relu_mlp"), []

    def looking(parameters: Parameters, batch: Minibatch) -> Tensor:
        outputs, before_head = batch.features(parameters, batch.inputs)
        first = batch.features(parameters, batch.inputs, "1")[1]
        head, bias = parameters["4.weight"], parameters["4.bias"]
        by_hand = before_head @ head.transpose(1, 2) + bias.unsqueeze(1)
        seen.append((by_hand - outputs).detach().abs().max())
        seen.append((first - batch.inputs.flatten(2)).abs().max())
        seen.append((batch.forward(parameters, batch.inputs) - outputs).detach().abs().max())
        return batch.mean_loss(outputs)

    submit(trainer_class(net, shards(), looking), 3, Recipe(LOCAL)).result()

    assert seen
    assert float(torch.stack(seen).max()) < 1e-12


class Twice(nn.Module):
    """Calls one layer twice, and another never."""

    def __init__(self) -> None:
        super().__init__()
        self.square = nn.Linear(64, 64)
        self.idle = nn.ReLU()
        self.head = nn.Linear(64, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        """(rows, 1, 8, 8) -> (rows, 3)."""
        return self.head(self.square(self.square(inputs.flatten(1))))


@pytest.mark.parametrize("trainer_class", [SequentialTrainer, BatchedTrainer])
@pytest.mark.parametrize(
    ("layer", "said"),
    [
        ("hed", r"layer: found 'hed', accepted: a module of the model: square, idle, head"),
        ("idle", "once"),
        ("square", "once"),
    ],
)
def test_features_of_no_layer_or_of_several_passes_are_refused(
    trainer_class: type[Trainer], layer: str, said: str
) -> None:
    """With the names that there are."""
    net = Network(Twice, IMAGE, Objective("classification"), torch.float64)

    def looking(parameters: Parameters, batch: Minibatch) -> Tensor:
        return batch.mean_loss(batch.features(parameters, batch.inputs, layer)[0])

    future = submit(trainer_class(net, shards(), looking), 0, Recipe(LOCAL))

    with pytest.raises(ValueError, match=said):
        future.result()


@pytest.mark.parametrize("trainer_class", [SequentialTrainer, BatchedTrainer])
def test_an_update_says_how_many_steps_it_made(trainer_class: type[Trainer]) -> None:
    """BatchNorm leaves out a batch of one row: 17 rows in batches of 8 are 2 steps, not 3."""

    def steps(model: str, kind: str = "train") -> Sequence[int]:
        trainer = trainer_class(network(model), shards(), plain_loss)
        recipe = Recipe(LOCAL, kind=kind)  # type: ignore[arg-type]  # one of the two literals
        return [submit(trainer, client, recipe).result().steps for client in (2, 3)]

    assert steps("linear") == [6, 4]
    assert steps("bn_mlp") == [4, 4]
    assert steps("linear", "gradient") == [0, 0]
