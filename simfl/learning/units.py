"""Hidden units: which values of a model belong to which neuron or channel.

A *unit* is an output of a hidden layer: a neuron of a Linear layer, a channel of a Conv2d. Its
incoming values are the layer's weight row and bias (and those of a BatchNorm behind it), its
outgoing ones the columns of the next layer's weight that read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeGuard

import torch
from torch import Tensor, nn
from torch.func import functional_call

from simfl.learning.kernels.stacked_graph import CURVED_MODULES, PLAIN_MODULES
from simfl.learning.parameters import Parameters

Layout = list[tuple[int, int, tuple[str, ...], str, int]]
"""For each hidden layer: its first unit's number, the number of units, the tensors with one row per
unit, the next layer's weight, and the number of its columns that read each unit.
"""

KEEPS_UNITS_APART = (*PLAIN_MODULES, *CURVED_MODULES, nn.Dropout, nn.Dropout2d)
"""Modules that compute each unit's activation from that unit alone."""


@dataclass(frozen=True)
class Affine:
    """A Linear or Conv2d layer of a chain.

    `place` is its position in the chain, `positions` the number of times its weight is applied per
    example (1, or the pixels of a convolution's output).
    """

    name: str
    module: nn.Linear | nn.Conv2d
    place: int
    positions: int

    @property
    def weight(self) -> str:
        """The name of its weight."""
        return f"{self.name}.weight"

    @property
    def outputs(self) -> int:
        """The number of neurons or channels."""
        weight: Tensor = self.module.weight
        return int(weight.shape[0])


@dataclass(frozen=True)
class UnitLayer:
    """The units of one hidden layer.

    `first` is the number of the first one among all hidden units. `incoming` names the tensors with
    one row per unit; `reader` is the next layer, of whose weight each unit uses `columns` columns.
    """

    first: int
    count: int
    incoming: tuple[str, ...]
    reader: Affine
    columns: int

    @property
    def place(self) -> slice:
        """The position of its units among all hidden units."""
        return slice(self.first, self.first + self.count)


class HiddenUnits:
    """The hidden units of a model that is a chain of layers, numbered from the input on.

    `chain`: the model's named modules in the order in which they are called. Raises ValueError for
    a model that is not a chain, or in which units are mixed outside Linear and Conv2d layers.
    """

    def __init__(
        self,
        chain: Sequence[tuple[str, nn.Module]],
        shapes: Parameters,
        input_shape: tuple[int, ...],
    ) -> None:
        self.chain = tuple(chain)
        affine = _affine_layers(self.chain, shapes, input_shape)
        self.affine = tuple(affine)
        layers: list[UnitLayer] = []
        first = 0
        for layer, reader in pairwise(affine):
            incoming = _incoming(self.chain[layer.place : reader.place], layer.outputs)
            columns = int(shapes[reader.weight].shape[1]) // layer.outputs
            layers.append(UnitLayer(first, layer.outputs, incoming, reader, columns))
            first += layer.outputs
        self.layers = tuple(layers)
        self.count = first
        if not layers:
            raise ValueError("has no hidden units: it has no hidden layer")

    @property
    def relu_only(self) -> bool:
        """Whether a unit whose incoming values are zero outputs 0 and gets no gradient."""
        between = [
            module
            for layer, reader in pairwise(self.affine)
            for _, module in self.chain[layer.place + 1 : reader.place]
        ]
        relus = sum(type(module) is nn.ReLU for module in between)
        plain = all(isinstance(module, nn.ReLU | nn.MaxPool2d | nn.Flatten) for module in between)
        return plain and relus == len(self.layers)

    @property
    def layout(self) -> Layout:
        """The positions of units' values, as plain values that can be kept in a server's memory."""
        return [
            (one.first, one.count, one.incoming, one.reader.weight, one.columns)
            for one in self.layers
        ]

    def work(self, masks: Parameters) -> float:
        """Multiply-adds of a forward pass with masked weights, relative to the whole model."""
        kept = sum(one.positions * int(masks[one.weight].sum()) for one in self.affine)
        whole = sum(one.positions * masks[one.weight].numel() for one in self.affine)
        return kept / whole


def unit_masks(
    layout: Layout, weights: Parameters, kept: Tensor, *, outgoing: bool = True
) -> Parameters:
    """For every tensor of `weights`, True where it belongs to kept units only.

    kept: (units,), bool. Without `outgoing`, the columns that read a dropped unit are kept. Outputs
    of the last layer are not hidden units; its bias and running statistics are always kept.
    """
    masks = {
        name: torch.ones(tensor.shape, dtype=torch.bool, device=kept.device)
        for name, tensor in weights.items()
    }
    for first, count, incoming, reader, columns in layout:
        mine = kept[first : first + count]
        for name in incoming:
            masks[name] &= mine.view(-1, *[1] * (masks[name].dim() - 1))
        if outgoing:
            read = mine.repeat_interleave(columns)
            masks[reader] &= read.view(1, -1, *[1] * (masks[reader].dim() - 2))
    return masks


def run_chain(
    modules: Sequence[tuple[str, nn.Module]], parameters: Parameters, inputs: Tensor
) -> Tensor:
    """The outputs of some modules of a chain, called one after another with `parameters`."""
    for name, module in modules:
        inputs = functional_call(module, tensors_of(name, module, parameters), (inputs,))
    return inputs


def tensors_of(name: str, module: nn.Module, parameters: Parameters) -> Parameters:
    """The tensors of one module of a chain, with the module's own names."""
    return {short: parameters[f"{name}.{short}"] for short in module.state_dict()}


def _affine_layers(
    chain: Sequence[tuple[str, nn.Module]], shapes: Parameters, input_shape: tuple[int, ...]
) -> list[Affine]:
    """The Linear and Conv2d layers of a chain; raises ValueError if others mix units."""
    found: list[Affine] = []
    some = next(iter(shapes.values()))
    activation = torch.zeros(1, *input_shape, dtype=some.dtype, device=some.device)
    with torch.no_grad():
        for place, (name, module) in enumerate(chain):
            activation = run_chain([(name, module)], shapes, activation)
            if _is_affine(module):
                positions = activation[0].numel() // activation.shape[1]
                found.append(Affine(name, module, place, positions))
            elif not isinstance(module, (*KEEPS_UNITS_APART, nn.BatchNorm1d, nn.BatchNorm2d)):
                kind = type(module).__name__
                raise ValueError(f"{name} ({kind}) mixes hidden units, which cannot be left out")
    return found


def _is_affine(module: nn.Module) -> TypeGuard[nn.Linear | nn.Conv2d]:
    """Whether it computes each unit from all units before it; a grouped convolution does not."""
    if isinstance(module, nn.Conv2d):
        return module.groups == 1
    return isinstance(module, nn.Linear)


def _incoming(chain: Sequence[tuple[str, nn.Module]], outputs: int) -> tuple[str, ...]:
    """Names of the parameters with one row per output: the layer's own, and a BatchNorm's."""
    return tuple(
        f"{name}.{short}"
        for name, module in chain
        for short, tensor in module.named_parameters()
        if len(tensor) == outputs
    )
