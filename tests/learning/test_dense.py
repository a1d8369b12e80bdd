"""Gradients by hand are those of autograd, and are used where they may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

from simfl.learning import batched
from simfl.learning.batched import BatchedTrainer
from simfl.learning.cohort import DenseCohort
from simfl.learning.datasets.base import Examples
from simfl.learning.job import LocalTraining, Recipe
from simfl.learning.kernels.dense import less_the_right
from simfl.learning.network import Network
from simfl.learning.objective import Objective
from simfl.learning.trainer import Loss
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
RECIPES = {
    "sgd": Recipe(LOCAL),
    "momentum": Recipe(replace(LOCAL, momentum=0.9)),
    "decay": Recipe(replace(LOCAL, weight_decay=0.1)),
    "adam": Recipe(replace(LOCAL, optimizer="adam", learning_rate=0.01)),
    "gradient": Recipe(LOCAL, kind="gradient"),
}


@pytest.mark.usefixtures("products")
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("model", ["linear", "relu_mlp"])
def test_gradients_by_hand_are_autograds(model: str, recipe: str) -> None:
    """In float64 hand and autograd agree to 1e-9 on cross entropy, ragged shards included."""
    trainers = [
        BatchedTrainer(network(model), shards(), loss) for loss in (plain_loss, traced_loss)
    ]

    futures = [
        [submit(trainer, client, RECIPES[recipe]) for client in range(len(SIZES))]
        for trainer in trainers
    ]

    for by_hand, traced in zip(*futures, strict=True):
        assert_close(by_hand.result(), traced.result())


def test_squared_errors_by_hand_are_autograds() -> None:
    """The same holds for a regression of two values."""
    net = Network(
        lambda: nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)),
        (3,),
        Objective("regression"),
        torch.float64,
    )
    generator = torch.Generator().manual_seed(0)
    data = [
        Examples(torch.randn(n, 3, generator=generator), torch.randn(n, 2, generator=generator))
        for n in (9, 20)
    ]
    by_hand, traced = (
        [submit(trainer, client, RECIPES["sgd"]) for client in range(2)]
        for trainer in [BatchedTrainer(net, data, loss) for loss in (plain_loss, traced_loss)]
    )

    for one, other in zip(by_hand, traced, strict=True):
        assert_close(one.result(), other.result())


def test_rates_of_jobs_trained_together_are_their_own() -> None:
    """A job with another learning rate changes no bit of the other jobs, nor of its own."""
    net = network("relu_mlp", torch.float32)
    slow = Recipe(replace(LOCAL, learning_rate=0.003))
    recipes = [RECIPES["sgd"], slow, slow, RECIPES["sgd"], slow]
    together = BatchedTrainer(net, shards((20,) * 5), plain_loss)
    apart = BatchedTrainer(net, shards((20,) * 5), plain_loss, cohort_cap=1)

    mixed = [submit(together, client, recipe) for client, recipe in enumerate(recipes)]

    for client, recipe in enumerate(recipes):
        assert_same_bits(mixed[client].result(), submit(apart, client, recipe).result())
    assert together.cohorts == [5]


def untrained_bias() -> nn.Module:
    """A linear model whose bias is fixed."""
    layer = nn.Linear(64, 3)
    layer.bias.requires_grad_(False)
    return nn.Sequential(nn.Flatten(), layer)


@pytest.mark.parametrize(
    ("factory", "loss", "by_hand"),
    [
        (lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), plain_loss, True),
        (lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), traced_loss, False),
        (untrained_bias, plain_loss, False),
        (lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 3), nn.ReLU()), plain_loss, False),
        (lambda: nn.Sequential(nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)), plain_loss, False),
        (lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 3), nn.ELU()), plain_loss, False),
        (lambda: nn.Sequential(nn.Flatten(), *[nn.Linear(64, 64)] * 2), plain_loss, False),
    ],
)
def test_only_what_is_known_by_hand_goes_there(
    factory: Callable[[], nn.Module], loss: Loss, by_hand: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another loss, fixed parameters, shared layers and other modules are left to autograd."""
    used: list[object] = []

    class Watched(DenseCohort):
        def train(self) -> dict[str, torch.Tensor]:
            used.append(self)
            return super().train()

    monkeypatch.setattr(batched, "DenseCohort", Watched)
    net = Network(factory, IMAGE, Objective("classification"), torch.float64)

    submit(BatchedTrainer(net, shards(), loss), 2, RECIPES["sgd"]).result()

    assert bool(used) == by_hand


def test_the_right_class_is_subtracted_to_the_last_bit_as_by_adding() -> None:
    """The form for accelerators gives the bits of the one for processors."""
    generator = torch.Generator().manual_seed(0)
    found = torch.softmax(torch.randn(3, 10, 7, generator=generator), 1)
    right = torch.randint(0, 10, (3, 1, 7), generator=generator)
    expected = found.clone().scatter_add_(1, right, found.new_full(right.shape, -1.0))

    assert torch.equal(less_the_right(found, right), expected)
