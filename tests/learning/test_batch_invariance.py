"""Shapes for which a stacked kernel's bits depend on the other jobs unless care is taken.

Each model here was seen to differ in the last bit, on a CPU with AVX-512, with one of the
precautions of `stacked.py` and `stacked_product.py` removed.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from simfl.learning.batched import BatchedTrainer
from simfl.learning.datasets.base import Examples
from simfl.learning.job import LocalTraining, Recipe, Update
from simfl.learning.network import Network
from simfl.learning.objective import Objective
from simfl.learning.trainer import Loss
from tests.learning.training import assert_same_bits, plain_loss, submit, traced_loss

JOBS = 9


def perceptron(inputs: int, hidden: int, activation: nn.Module, outputs: int) -> nn.Module:
    """One hidden layer."""
    return nn.Sequential(nn.Linear(inputs, hidden), activation, nn.Linear(hidden, outputs))


SHAPES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    "matrices off the cache line": (lambda: perceptron(20, 33, nn.ReLU(), 10), (20,), 10),
    "scalar tail of an activation": (lambda: perceptron(64, 33, nn.Sigmoid(), 2), (64,), 3),
    "scalar tail of an exponential": (lambda: perceptron(123, 3, nn.ELU(), 10), (123,), 5),
    "one of many classes": (lambda: perceptron(63, 30, nn.ReLU(), 11), (63,), 30),
    "product with a vector": (lambda: perceptron(1000, 100, nn.ReLU(), 1), (1000,), 16),
    "one input channel": (
        lambda: nn.Sequential(nn.Conv2d(1, 8, 3), nn.Flatten(), nn.Linear(32, 3)),
        (1, 4, 4),
        16,
    ),
    "convolution of a lone job": (
        lambda: nn.Sequential(nn.Conv2d(4, 20, 3), nn.Flatten(), nn.Linear(80, 3)),
        (4, 4, 4),
        3,
    ),
}


@pytest.mark.usefixtures("products")
@pytest.mark.parametrize("loss", [plain_loss, traced_loss])
@pytest.mark.parametrize("shape", SHAPES)
def test_company_and_place_change_no_bit(shape: str, loss: Loss) -> None:
    """In float32 a job's result is bitwise the same alone, among other jobs, and at any place."""
    factory, input_shape, rows = SHAPES[shape]
    network = Network(factory, input_shape, Objective("regression"))
    outputs = network.initial(0)[network.parameter_names[-1]].numel()
    generator = torch.Generator().manual_seed(0)
    data = [
        Examples(
            torch.randn(2 * rows, *input_shape, generator=generator),
            torch.randn(2 * rows, outputs, generator=generator),
        )
        for _ in range(JOBS)
    ]
    recipe = Recipe(LocalTraining(steps=4, batch_size=rows, learning_rate=0.01))

    def results(cap: int, order: int) -> list[Update]:
        trainer = BatchedTrainer(network, data, loss, cohort_cap=cap)
        futures = {client: submit(trainer, client, recipe) for client in range(JOBS)[::order]}
        return [futures[client].result() for client in range(JOBS)]

    together = results(JOBS, 1)
    apart = [results(1, 1), results(2, -1), results(3, 1), results(JOBS, -1)]

    assert network.kernel_family == "stacked"
    for others in apart:
        for update, expected in zip(others, together, strict=True):
            assert_same_bits(update, expected)
