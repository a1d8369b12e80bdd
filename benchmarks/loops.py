"""Local training written by hand, to measure simfl's trainer against: SGD on cross entropy.

`naive` is what most simulators do, `lean` the best loop over clients without batching them,
`stacked_dense` and `stacked_convolutional` all clients at once, as one would write it for exactly
this model and nothing else. Each trains the given clients from the same start weights.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

Shard = tuple[Tensor, Tensor]
EPOCHS, BATCH, RATE = 5, 32, 0.05


def naive(model: nn.Module, shards: Sequence[Shard]) -> None:
    """One client after the other: deepcopy, DataLoader, torch.optim.SGD."""
    for inputs, targets in shards:
        local = copy.deepcopy(model)
        loader = DataLoader(TensorDataset(inputs, targets), batch_size=BATCH, shuffle=True)
        optimizer = torch.optim.SGD(local.parameters(), lr=RATE)
        criterion = nn.CrossEntropyLoss()
        for _ in range(EPOCHS):
            for rows, labels in loader:
                optimizer.zero_grad()
                criterion(local(rows), labels).backward()
                optimizer.step()
        copy.deepcopy(local.state_dict())


def lean(model: nn.Module, shards: Sequence[Shard], work: nn.Module) -> None:
    """One client after the other: preallocated tensors, index slices, fused in-place SGD."""
    start = [tensor.detach() for tensor in model.parameters()]
    weights = list(work.parameters())
    for inputs, targets in shards:
        with torch.no_grad():
            torch._foreach_copy_(weights, start)
        for _ in range(EPOCHS):
            order = torch.randperm(len(targets))
            shuffled, labels = inputs[order], targets[order]
            for first in range(0, len(targets), BATCH):
                rows = slice(first, first + BATCH)
                loss = F.cross_entropy(work(shuffled[rows]), labels[rows])
                gradients = torch.autograd.grad(loss, weights)
                with torch.no_grad():
                    torch._foreach_add_(weights, gradients, alpha=-RATE)
        _ = [tensor.detach().clone() for tensor in weights]


def _batches(shards: Sequence[Shard]) -> tuple[Tensor, Tensor, list[Tensor]]:
    """All rows, all labels, and per step the rows (clients, batch) of equal shards."""
    inputs, targets = (torch.cat(column) for column in zip(*shards, strict=True))
    size = len(shards[0][1])
    offsets = torch.arange(len(shards))[:, None] * size
    steps: list[Tensor] = []
    for _ in range(EPOCHS):
        order = torch.stack([torch.randperm(size) for _ in shards]) + offsets
        steps += [batch.contiguous() for batch in order.split(BATCH, dim=1)]
    return inputs, targets, steps


def stacked_dense(model: nn.Module, shards: Sequence[Shard], at_once: int) -> None:
    """Linear layers with ReLU: batched products, gradients by hand, SGD inside the product."""
    for first in range(0, len(shards), at_once):
        some = shards[first : first + at_once]
        inputs, targets, steps = _batches(some)
        inputs = inputs.flatten(1)
        layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
        weights = [layer.weight.detach().expand(len(some), -1, -1).clone() for layer in layers]
        biases = [layer.bias.detach().expand(len(some), -1).clone() for layer in layers]
        for rows in steps:
            values = [inputs[rows]]
            for weight, bias in zip(weights, biases, strict=True):
                product = torch.baddbmm(bias[:, None], values[-1], weight.transpose(1, 2))
                values.append(product.relu_() if len(values) < len(weights) else product)
            slope = torch.softmax(values.pop(), -1)
            slope.view(-1, slope.shape[-1])[
                torch.arange(rows.numel()), targets[rows].flatten()
            ] -= 1
            slope *= RATE / rows.shape[1]
            for layer in reversed(range(len(weights))):
                before = torch.bmm(slope, weights[layer]) if layer else slope
                weights[layer].baddbmm_(slope.transpose(1, 2), values[layer], alpha=-1)
                biases[layer] -= slope.sum(1)
                slope = before.mul_(values[layer] > 0) if layer else slope
        _ = [tensor[client].clone() for tensor in weights + biases for client in range(len(some))]


def stacked_convolutional(model: nn.Module, shards: Sequence[Shard], at_once: int) -> None:
    """Two convolutions with pooling and one linear layer: grouped convolution and autograd."""
    one, two = (layer for layer in model.modules() if isinstance(layer, nn.Conv2d))
    for first in range(0, len(shards), at_once):
        some = shards[first : first + at_once]
        clients = len(some)
        inputs, targets, steps = _batches(some)
        weights = [
            tensor.detach().expand(clients, *tensor.shape).clone().requires_grad_()
            for tensor in model.parameters()
        ]
        for rows in steps:
            images = inputs[rows].transpose(0, 1).flatten(1, 2)
            for layer, (weight, bias) in zip((one, two), (weights[:2], weights[2:4]), strict=True):
                padding = layer.padding
                images = F.conv2d(
                    images, weight.flatten(0, 1), bias.flatten(), padding=padding, groups=clients
                )
                images = F.max_pool2d(F.relu(images), 2)
            features = images.unflatten(1, (clients, -1)).transpose(0, 1).flatten(2)
            logits = torch.baddbmm(weights[5][:, None], features, weights[4].transpose(1, 2))
            losses = F.cross_entropy(logits.flatten(0, 1), targets[rows].flatten(), reduction="sum")
            gradients = torch.autograd.grad(losses / rows.shape[1], weights)
            with torch.no_grad():
                torch._foreach_add_(weights, gradients, alpha=-RATE)
        _ = [tensor[client].clone() for tensor in weights for client in range(clients)]


def num_steps(rows: int) -> int:
    """Steps of one client's training."""
    return EPOCHS * math.ceil(rows / BATCH)
