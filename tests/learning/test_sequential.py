"""The reference against a training loop written out by hand with torch's own parts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from simfl.learning.batched import BatchedTrainer
from simfl.learning.job import LocalTraining, Recipe
from simfl.learning.minibatch import Minibatch
from simfl.learning.parameters import Parameters
from simfl.learning.sequential import SequentialTrainer
from tests.learning.training import (
    MODELS,
    assert_same_bits,
    network,
    plain_loss,
    plan_batches,
    shards,
    submit,
    traced_loss,
)

LOCALS = [
    LocalTraining(epochs=3, batch_size=8, learning_rate=0.1),
    LocalTraining(epochs=3, batch_size=8, learning_rate=0.1, momentum=0.9, weight_decay=0.01),
    LocalTraining(steps=9, batch_size=8, learning_rate=0.01, optimizer="adam"),
]


@pytest.mark.parametrize("local", LOCALS, ids=["sgd", "momentum", "adam"])
@pytest.mark.parametrize("model", ["mlp", "residual"])
def test_training_is_the_textbook_loop(model: str, local: LocalTraining) -> None:
    """Module, `torch.optim`, cross entropy: the payload has the very bits of the module's state."""
    net = network(model)
    data = shards()[4].cast(torch.float64)
    start = net.initial(5)
    module = MODELS[model]().double()
    module.load_state_dict(start)
    if local.optimizer == "adam":
        optimizer: torch.optim.Optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    else:
        optimizer = torch.optim.SGD(
            module.parameters(),
            lr=0.1,
            momentum=local.momentum,
            weight_decay=local.weight_decay,
        )
    for rows in plan_batches(4000, len(data), local):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(module(data.inputs[rows]), data.targets[rows])
        loss.backward()
        optimizer.step()

    update = submit(SequentialTrainer(net, shards(), plain_loss), 4, Recipe(local)).result()

    assert update.payload.keys() == module.state_dict().keys()
    for name, tensor in module.state_dict().items():
        assert torch.equal(update.payload[name], tensor), name


def test_a_loss_of_ones_own_is_the_same_training() -> None:
    """A loss that calls `forward` once has the plain loss's result, running statistics too."""
    net = network("residual")
    recipe = Recipe(LOCALS[1])
    plain = submit(SequentialTrainer(net, shards(), plain_loss), 4, recipe).result()

    own = submit(SequentialTrainer(net, shards(), traced_loss), 4, recipe).result()

    for name, tensor in plain.payload.items():
        torch.testing.assert_close(own.payload[name], tensor, rtol=0, atol=1e-12, msg=name)


def run_twice(parameters: Parameters, batch: Minibatch) -> Tensor:
    """The mean over the model and one with weights of half the size."""
    half = {name: 0.5 * tensor for name, tensor in parameters.items()}
    both = (batch.forward(one, batch.inputs) for one in (parameters, half))
    return torch.stack([batch.mean_loss(outputs) for outputs in both]).mean(0)


def test_a_loss_may_run_a_model_with_running_statistics_twice() -> None:
    """As in stacks: they move in each pass, which gradients do not see."""
    net, recipe = network("residual"), Recipe(LOCALS[0])
    stacked = submit(BatchedTrainer(net, shards(), run_twice), 4, recipe).result()

    alone = submit(SequentialTrainer(net, shards(), run_twice), 4, recipe).result()

    for name, tensor in stacked.payload.items():
        torch.testing.assert_close(alone.payload[name], tensor, rtol=0, atol=1e-9, msg=name)


def test_jobs_do_not_meet_in_the_module_that_they_share() -> None:
    """A job after another has the same bits as alone, and earlier results stay unchanged."""
    net = network("residual")
    trainer = SequentialTrainer(net, shards(), plain_loss)
    frozen = Recipe(LOCALS[0], trainable=frozenset({"head.weight"}))
    alone = submit(SequentialTrainer(net, shards(), plain_loss), 5, Recipe(LOCALS[1])).result()
    first = submit(trainer, 4, frozen).result()
    before = {name: tensor.clone() for name, tensor in first.payload.items()}

    second = submit(trainer, 5, Recipe(LOCALS[1])).result()

    assert_same_bits(second, alone)
    for name, tensor in before.items():
        assert torch.equal(first.payload[name], tensor), name


def test_a_gradient_is_that_of_the_mean_loss() -> None:
    """In pieces or at once, the gradient over the shard is the gradient of the mean loss."""
    net = network("mlp")
    data = shards()[4].cast(torch.float64)
    module = MODELS["mlp"]().double()
    module.load_state_dict(net.initial(5))
    nn.functional.cross_entropy(module(data.inputs), data.targets).backward()
    recipe = Recipe(LocalTraining(batch_size=7), kind="gradient")

    update = submit(SequentialTrainer(net, shards(), plain_loss), 4, recipe).result()

    for name, parameter in module.named_parameters():
        torch.testing.assert_close(update.payload[name], parameter.grad, rtol=0, atol=1e-12)


def test_kept_adam_state_continues_where_it_stopped() -> None:
    """Two chained jobs of one whole-shard step each are one job of two steps."""
    net = network("mlp")
    local = LocalTraining(epochs=1, batch_size=None, optimizer="adam", keep_optimizer=True)
    both = LocalTraining(epochs=2, batch_size=None, optimizer="adam", keep_optimizer=True)
    trainer = SequentialTrainer(net, shards(), plain_loss)
    first = submit(trainer, 4, Recipe(local))
    second = submit(
        trainer, 4, Recipe(local), start=first.result().payload, previous=first, number=1
    )

    expected = submit(trainer, 4, Recipe(both)).result()

    assert second.result().memory.optimizer_steps == 2
    for name, tensor in expected.payload.items():
        torch.testing.assert_close(second.result().payload[name], tensor, rtol=0, atol=1e-12)
