"""FedAvg on images as a plain loop, without simfl: what its rounds to a target are held against.

McMahan et al., AISTATS 2017, Algorithm 1 with E = 1: a list of weights, one client after another,
one mini-batch after another. Nothing of simfl takes part but the data.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from simfl.learning.datasets.base import Data

HIDDEN = 200


def rounds_to(
    data: Data,
    split: str,
    *,
    target: float,
    rate: float,
    clients: int,
    selected: int,
    batch_size: int,
    most: int,
    seed: int,
) -> float:
    """Rounds until the test accuracy; NaN where `most` are not enough. `split`: iid, two_shards."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    train = data.train.inputs.flatten(1), data.train.targets
    test = data.test.inputs.flatten(1), data.test.targets
    rows = split_rows(train[1].numpy(), split, clients, rng)
    net = nn.Sequential(
        nn.Linear(train[0].shape[1], HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, data.outputs),
    )
    server = [weight.detach().clone() for weight in net.parameters()]
    for number in range(1, most + 1):
        chosen = rng.choice(clients, selected, replace=False)
        examples = sum(len(rows[client]) for client in chosen)
        mean = [torch.zeros_like(weight) for weight in server]
        for client in chosen:
            set_weights(net, server)
            for batch in batches(rng.permutation(rows[client]), batch_size):
                descend(net, train[0][batch], train[1][batch], rate)
            share = len(rows[client]) / examples
            for total, weight in zip(mean, net.parameters(), strict=True):
                total.add_(weight.detach(), alpha=share)
        server = mean
        set_weights(net, server)
        with torch.no_grad():
            right = net(test[0]).argmax(1) == test[1]
        if right.double().mean().item() >= target:
            return float(number)
    return float("nan")


def split_rows(
    labels: np.ndarray, split: str, clients: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """The rows of each client: shuffled, or two shards of the rows sorted by label."""
    if split == "iid":
        return np.array_split(rng.permutation(len(labels)), clients)
    shards = np.array_split(np.argsort(labels, kind="stable"), 2 * clients)
    order = rng.permutation(2 * clients)
    return [
        np.concatenate([shards[order[i]], shards[order[i + 1]]]) for i in range(0, len(order), 2)
    ]


def batches(rows: np.ndarray, size: int) -> list[np.ndarray]:
    """Rows in mini-batches, the last one with what is left."""
    return [rows[start : start + size] for start in range(0, len(rows), size)]


@torch.no_grad()
def set_weights(net: nn.Module, weights: list[Tensor]) -> None:
    """Give the network these weights."""
    for own, given in zip(net.parameters(), weights, strict=True):
        own.copy_(given)


def descend(net: nn.Module, inputs: Tensor, targets: Tensor, rate: float) -> None:
    """One step of plain SGD."""
    weights = list(net.parameters())
    slopes = torch.autograd.grad(functional.cross_entropy(net(inputs), targets), weights)
    with torch.no_grad():
        for weight, slope in zip(weights, slopes, strict=True):
            weight.sub_(slope, alpha=rate)
