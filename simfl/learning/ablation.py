"""Losses of a model without each of its hidden units, in a few batched passes.

Activations are computed once. Removing a unit changes the next layer's outputs by the unit's
contribution, which is subtracted; only the layers above are computed per unit, for many units at a
time.
"""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import Tensor

from simfl.learning.datasets.base import Examples
from simfl.learning.objective import Objective
from simfl.learning.parameters import Parameters
from simfl.learning.units import HiddenUnits, UnitLayer, run_chain

ROWS_PER_PASS = 512
VALUES_PER_PASS = 1_000_000
"""The largest number of examples, and of the next layer's output values, in one pass. It bounds
memory and fixes the last bits of the losses.
"""


def ablation_losses(
    units: HiddenUnits, objective: Objective, parameters: Parameters, examples: Examples
) -> Tensor:
    """Mean loss with each hidden unit silenced, everything else as it is: (units,), float64."""
    sums = torch.zeros(units.count, dtype=torch.float64, device=examples.inputs.device)
    dtype = next(iter(parameters.values())).dtype
    with torch.no_grad():
        for _, module in units.chain:
            module.eval()
        for rows in torch.split(torch.arange(len(examples)), ROWS_PER_PASS):
            activation, targets = examples.inputs[rows].to(dtype), examples.targets[rows]
            place = 0
            for layer in units.layers:
                activation = run_chain(
                    units.chain[place : layer.reader.place], parameters, activation
                )
                place = layer.reader.place
                sums[layer.place] += _layer_sums(
                    units, layer, objective, parameters, activation, targets
                )
    return sums / len(examples)


def full_passes(units: HiddenUnits) -> float:
    """The cost of `ablation_losses`, in forward passes of the whole model."""
    cost = [one.positions * one.module.weight.numel() for one in units.affine]
    # In the next layer only one column belongs to a unit; the layers above are computed in full.
    per_unit = [
        cost[number + 1] / layer.count + sum(cost[number + 2 :])
        for number, layer in enumerate(units.layers)
    ]
    work = sum(layer.count * one for layer, one in zip(units.layers, per_unit, strict=True))
    return 1.0 + work / sum(cost)


def _layer_sums(
    units: HiddenUnits,
    layer: UnitLayer,
    objective: Objective,
    parameters: Parameters,
    activation: Tensor,
    targets: Tensor,
) -> Tensor:
    """The losses, summed over some rows, without each unit of one layer: (count,), float64.

    activation: (rows, ...), the input of the next layer (`reader`).
    """
    reader = (layer.reader.name, layer.reader.module)
    whole = run_chain([reader], parameters, activation)
    above = units.chain[layer.reader.place + 1 :]
    at_once = max(1, VALUES_PER_PASS // whole.numel())
    sums = []
    for group in torch.split(torch.arange(layer.count), at_once):
        first, last = int(group[0]), int(group[-1]) + 1
        without = whole - _fed(layer, parameters[layer.reader.weight], activation, first, last)
        outputs = run_chain(above, parameters, without.flatten(0, 1))
        outputs = outputs.view(last - first, len(targets), *outputs.shape[1:])
        expected = targets.expand(last - first, *targets.shape)
        losses = objective.per_example(outputs, expected.contiguous())
        sums.append(losses.sum(1, dtype=torch.float64))
    return torch.cat(sums)


def _fed(layer: UnitLayer, weight: Tensor, activation: Tensor, first: int, last: int) -> Tensor:
    """What units first..last-1 each add to the next layer's outputs: (units, rows, *outputs)."""
    rows, count = len(activation), last - first
    module = layer.reader.module
    if isinstance(module, torch.nn.Linear):
        columns = slice(first * layer.columns, last * layer.columns)
        fed = activation[:, columns].view(rows, count, layer.columns).transpose(0, 1)
        read = weight[:, columns].view(len(weight), count, layer.columns).permute(1, 2, 0)
        return torch.bmm(fed, read)
    # One group per unit, so that each channel is convolved with its own slice of the kernel only.
    kernel = (
        weight[:, first:last].transpose(0, 1).reshape(count * len(weight), 1, *weight.shape[2:])
    )
    maps = functional.conv2d(
        activation[:, first:last],
        kernel,
        None,
        module.stride,
        module.padding,
        module.dilation,
        groups=count,
    )
    return maps.view(rows, count, len(weight), *maps.shape[2:]).transpose(0, 1)
