"""The batched trainer gives the sequential one's results, and the same bits among any other
jobs.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from simfl.learning.batched import BatchedTrainer
from simfl.learning.datasets.base import Examples
from simfl.learning.job import LocalTraining, Recipe, Update
from simfl.learning.kernels import stacked_layers
from simfl.learning.minibatch import Minibatch
from simfl.learning.network import Network
from simfl.learning.objective import Objective
from simfl.learning.parameters import Parameters, squared_distance
from simfl.learning.sequential import SequentialTrainer
from simfl.learning.trainer import Trainer
from tests.learning.training import (
    IMAGE,
    MODELS,
    SIZES,
    assert_close,
    assert_same_bits,
    network,
    plain_loss,
    shards,
    submit,
)

OPTIMIZERS = {
    "sgd": LocalTraining(epochs=2, batch_size=8, learning_rate=0.1),
    "momentum": LocalTraining(
        steps=5, batch_size=8, learning_rate=0.05, momentum=0.9, weight_decay=0.01
    ),
    "adam": LocalTraining(
        epochs=1, batch_size=8, learning_rate=0.01, optimizer="adam", keep_optimizer=True
    ),
    "whole_shard": LocalTraining(epochs=3, batch_size=None, learning_rate=0.1),
}


def two_turns(trainer: Trainer, recipe: Recipe, own: Parameters | None = None) -> list[Update]:
    """Two chained jobs of every client, the second with half the learning rate."""
    clients = range(len(trainer.shards))
    later = replace(recipe, local=replace(recipe.local, learning_rate=0.01))
    first = [submit(trainer, client, recipe, own=own) for client in clients]
    second = [
        submit(trainer, client, later, own=own, previous=first[client], number=1)
        for client in clients
    ]
    return [future.result() for future in [*first, *second]]


@pytest.mark.grid(20)
@pytest.mark.usefixtures("products")
@pytest.mark.parametrize("kind", ["train", "gradient"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", MODELS)
def test_batched_equals_sequential(model: str, optimizer: str, kind: str) -> None:
    """In float64 the two trainers agree to 1e-9, over two client rounds of clients of all sizes."""
    recipe = Recipe(OPTIMIZERS[optimizer], kind=kind, measure=frozenset({"loss_before"}))
    net = network(model)
    reference = two_turns(SequentialTrainer(net, shards(), plain_loss), recipe)
    trainer = BatchedTrainer(net, shards(), plain_loss)

    updates = two_turns(trainer, recipe)

    assert net.kernel_family == "stacked"
    assert max(trainer.cohorts) > 1
    for update, expected in zip(updates, reference, strict=True):
        assert_close(update, expected)


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
@pytest.mark.parametrize("trainer_class", [SequentialTrainer, BatchedTrainer])
def test_masked_entries_stay_as_they_were(trainer_class: type[Trainer], optimizer: str) -> None:
    """Masked weights keep their very bits under momentum, decay and kept Adam state."""
    net = network("mlp")
    start = net.initial(5)
    mask = (torch.arange(start["1.weight"].numel()).view_as(start["1.weight"]) % 3 > 0).double()
    trainer = trainer_class(net, shards(), plain_loss)
    recipe = Recipe(OPTIMIZERS[optimizer])
    free = [submit(trainer, client, recipe, start=start) for client in range(3)]
    masked = [
        submit(
            trainer, c, recipe, start=start, own={"mask/1.weight": mask}, previous=free[c], number=1
        )
        for c in range(3)
    ]

    changed = [future.result().delta["1.weight"] != 0 for future in masked]

    assert all(torch.equal(change, mask != 0) for change in changed)


def test_masked_jobs_agree_between_the_trainers() -> None:
    """Masks have the same effect in both trainers, for both kinds of job."""
    net = network("mlp")
    mask = (torch.arange(13 * 64).view(13, 64) % 2).double()
    for kind in ("train", "gradient"):
        recipe = Recipe(OPTIMIZERS["adam"], kind=kind)
        own = {"mask/1.weight": mask}
        reference = two_turns(SequentialTrainer(net, shards(), plain_loss), recipe, own)
        updates = two_turns(BatchedTrainer(net, shards(), plain_loss), recipe, own)

        for update, expected in zip(updates, reference, strict=True):
            assert_close(update, expected)


@pytest.mark.parametrize("trainer_class", [SequentialTrainer, BatchedTrainer])
def test_private_tensors_stay_with_the_client(trainer_class: type[Trainer]) -> None:
    """Private tensors are in the memory only, and replace the start's of the same name."""
    net = network("bn_mlp")
    recipe = Recipe(OPTIMIZERS["sgd"], private=net.normalisation)
    idle = Recipe(replace(OPTIMIZERS["sgd"], learning_rate=1e-300), private=net.normalisation)
    trainer = trainer_class(net, shards(), plain_loss)
    first = submit(trainer, 4, recipe)
    second = submit(trainer, 4, idle, previous=first, number=1)

    kept = first.result().memory.private
    again = second.result().memory.private

    assert kept.keys() == net.normalisation
    assert not net.normalisation & first.result().payload.keys()
    assert not torch.equal(kept["2.weight"], net.initial(5)["2.weight"])
    assert torch.equal(kept["2.weight"], again["2.weight"])


@pytest.mark.parametrize("kind", ["train", "gradient"])
def test_private_and_partly_trainable_jobs_agree(kind: str) -> None:
    """With a trainable subset and private statistics the trainers agree; the rest stays."""
    net = network("bn_cnn")
    recipe = Recipe(
        OPTIMIZERS["adam"],
        kind=kind,  # type: ignore[arg-type] # one of the two literals
        trainable=frozenset({"0.weight", "1.weight"}),
        private=net.normalisation,
    )
    reference = two_turns(SequentialTrainer(net, shards(), plain_loss), recipe)

    updates = two_turns(BatchedTrainer(net, shards(), plain_loss), recipe)

    assert updates[0].payload.keys() == {"0.weight"}
    for update, expected in zip(updates, reference, strict=True):
        assert_close(update, expected)


def proximal_loss(parameters: Parameters, batch: Minibatch) -> Tensor:
    """FedProx, together with a copy of the start per batch and two shared models."""
    outputs = batch.forward(parameters, batch.inputs)
    before = batch.forward({**batch.start}, batch.inputs)
    share = len(batch.common["0.weight"])
    every = {n: t.repeat(len(batch.inputs), *[1] * (t.dim() - 1)) for n, t in batch.common.items()}
    others = batch.forward(every, batch.inputs.repeat_interleave(share, 0))
    others = others.unflatten(0, (len(batch.inputs), share)).mean(1)
    distance = squared_distance(parameters, batch.start)
    return batch.mean_loss(outputs + 0.1 * before + 0.1 * others) + 0.05 * distance


def test_a_loss_may_run_other_models_on_the_batch() -> None:
    """The start and shared models run beside the job's own, which alone moves its statistics."""
    net = network("bn_cnn")
    both = [net.initial(7), net.initial(8)]
    common = {name: torch.stack([one[name] for one in both]) for name in net.parameter_names}
    recipe = Recipe(OPTIMIZERS["sgd"])
    results = []
    for trainer in (
        SequentialTrainer(net, shards(), proximal_loss),
        BatchedTrainer(net, shards(), proximal_loss),
    ):
        futures = [submit(trainer, client, recipe) for client in range(len(SIZES))]
        for future in futures:
            future.job.make_common = lambda: common
        results.append([future.result() for future in futures])

    for update, expected in zip(*results, strict=True):
        assert_close(update, expected)
    assert results[0][4].payload["1.num_batches_tracked"] == 2 * 5


def ensemble_loss(parameters: Parameters, batch: Minibatch) -> Tensor:
    """The mean of the job's own model and two others, which have its first layer."""
    every = batch.common["head"]
    others = [
        {**parameters, **{n: t[place].expand(len(batch.inputs), *t[0].shape) for n, t in every}}
        for place in (0, 1)
    ]
    return batch.mean_loss(sum(batch.each([parameters, *others], batch.inputs)) / 3)


@pytest.mark.parametrize("model", ["relu_mlp", "bn_mlp"])
def test_models_that_share_layers_run_them_once(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gradients equal the reference's, also for shared layers; running statistics are not
    shared.
    """
    net, products = network(model), []
    names = [name for name in net.parameter_names if not name.startswith("1.")]
    both = [net.initial(7), net.initial(8)]
    head = [(name, torch.stack([one[name] for one in both])) for name in names]
    recipe = Recipe(LocalTraining(batch_size=None), kind="gradient")
    plain = stacked_layers.stacked_linear

    def counted(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        products.append(tuple(weight.shape[1:]))
        return plain(inputs, weight, bias)

    _ = net.stacked
    monkeypatch.setattr(stacked_layers, "stacked_linear", counted)
    results = []
    for trainer in (BatchedTrainer, SequentialTrainer)[: 1 if net.buffer_names else 2]:
        future = submit(trainer(net, shards(), ensemble_loss), 4, recipe)
        future.job.make_common = lambda: {"head": head}
        results.append(future.result())

    assert_close(results[0], results[-1])
    first, last = ((9, 64), (3, 9)) if net.buffer_names else ((13, 64), (3, 8))
    assert products.count(first) == (3 if net.buffer_names else 1)
    assert products.count(last) == 3


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize("model", MODELS)
def test_company_changes_no_bit(model: str, optimizer: str) -> None:
    """In float32 a job's result has the same bits under any cohort cap and submission order."""
    net = network(model, torch.float32)
    recipe = Recipe(OPTIMIZERS[optimizer])
    results = []
    for cap, order in ((1, 1), (2, 1), (3, 1), (1000, 1), (1000, -1), (3, -1)):
        trainer = BatchedTrainer(net, shards(), plain_loss, cohort_cap=cap)
        futures = {client: submit(trainer, client, recipe) for client in range(len(SIZES))[::order]}
        results.append([futures[client].result() for client in range(len(SIZES))])

    for result in results[1:]:
        for update, expected in zip(result, results[0], strict=True):
            assert_same_bits(update, expected)


@pytest.mark.parametrize("trainer_class", [SequentialTrainer, BatchedTrainer])
def test_regression(trainer_class: type[Trainer]) -> None:
    """Gradient descent on the whole shard finds a known linear map."""
    net = Network(lambda: nn.Linear(3, 2), (3,), Objective("regression"), torch.float64)
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(30, 3, generator=generator)
    wanted = torch.tensor([[1.0, -2.0, 0.5], [0.0, 1.0, 3.0]])
    data = [Examples(inputs, inputs @ wanted.T), Examples(inputs[:20], inputs[:20] @ wanted.T)]
    trainer = trainer_class(net, data, plain_loss)
    recipe = Recipe(LocalTraining(epochs=200, batch_size=None, learning_rate=0.2))

    futures = [submit(trainer, client, recipe) for client in range(2)]

    for future in futures:
        learned = future.result().payload["weight"]
        torch.testing.assert_close(learned, wanted.double(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("trainer_class", [SequentialTrainer, BatchedTrainer])
def test_augmentation_is_seeded_by_the_job(trainer_class: type[Trainer]) -> None:
    """Augmented jobs are reproducible, draw per example, and leave torch's generator alone."""

    def shift(images: Tensor) -> Tensor:
        return images + torch.randn(len(images), 1, 1, 1)

    net = network("linear")
    recipe = Recipe(OPTIMIZERS["sgd"])
    plain = submit(SequentialTrainer(net, shards(), plain_loss), 2, recipe).result()
    reference = SequentialTrainer(net, shards(), plain_loss, augmentation=shift)
    expected = [submit(reference, client, recipe).result() for client in range(len(SIZES))]
    state = torch.random.get_rng_state()
    trainer = trainer_class(net, shards(), plain_loss, augmentation=shift)

    futures = [submit(trainer, client, recipe) for client in range(len(SIZES))]

    for future, update in zip(futures, expected, strict=True):
        assert_close(future.result(), update)
    assert torch.equal(state, torch.random.get_rng_state())
    assert not torch.equal(plain.payload["1.weight"], expected[2].payload["1.weight"])


def test_what_has_no_form_is_computed_job_by_job_and_reproducible() -> None:
    """A module that draws in a way of its own is not stacked; it draws by the job's seed."""
    net = Network(
        lambda: nn.Sequential(nn.Flatten(), nn.RReLU(), nn.Linear(64, 3)),
        IMAGE,
        Objective("classification"),
    )
    recipe = Recipe(OPTIMIZERS["sgd"])
    alone = SequentialTrainer(net, shards(), plain_loss)
    expected = [submit(alone, client, recipe).result() for client in range(4)]
    trainer = BatchedTrainer(net, shards(), plain_loss)

    futures = [submit(trainer, client, recipe) for client in (3, 2, 1, 0)]

    assert net.kernel_family == "loop"
    for future in futures:
        assert_same_bits(future.result(), expected[future.client])


@pytest.mark.usefixtures("products")
@pytest.mark.parametrize("trainer_class", [SequentialTrainer, BatchedTrainer])
def test_divergence_is_returned_not_raised(trainer_class: type[Trainer]) -> None:
    """Diverged weights are returned unchanged and do not affect other jobs."""
    net = network("mlp", torch.float32)
    trainer = trainer_class(net, shards(), plain_loss)
    wild = Recipe(replace(OPTIMIZERS["momentum"], learning_rate=1e30, steps=20))
    tame = Recipe(replace(OPTIMIZERS["momentum"], steps=20))
    futures = [submit(trainer, 2, wild), submit(trainer, 3, tame)]

    finite = [
        all(bool(t.isfinite().all()) for t in future.result().payload.values())
        for future in futures
    ]

    assert finite == [False, True]


@pytest.mark.parametrize("trainer_class", [SequentialTrainer, BatchedTrainer])
def test_a_loss_of_the_wrong_shape_is_refused(trainer_class: type[Trainer]) -> None:
    """A loss that mixes jobs is an error that says what is required."""
    trainer = trainer_class(
        network("linear"), shards(), lambda parameters, batch: plain_loss(parameters, batch).mean()
    )
    future = submit(trainer, 0, Recipe(OPTIMIZERS["sgd"]))

    with pytest.raises(ValueError, match="one value per job"):
        future.result()


@pytest.mark.cuda
@pytest.mark.parametrize("model", MODELS)
def test_cuda_equals_cpu(model: str) -> None:
    """On a CUDA device both trainers give what they give on the CPU (float64, 1e-9)."""
    recipe = Recipe(OPTIMIZERS["adam"])
    there = Network(MODELS[model], IMAGE, Objective("classification"), torch.float64, "cuda")
    start = network(model).initial(5)
    expected = submit(
        SequentialTrainer(network(model), shards(), plain_loss), 4, recipe, start=start
    ).result()
    moved = {name: tensor.cuda() for name, tensor in start.items()}
    for trainer_class in (SequentialTrainer, BatchedTrainer):
        trainer = trainer_class(there, shards(), plain_loss)

        update = submit(trainer, 4, recipe, start=moved).result()

        for name, tensor in update.payload.items():
            torch.testing.assert_close(tensor.cpu(), expected.payload[name], rtol=0, atol=1e-9)
