"""Training steps of stacked perceptrons, with hand-written gradients and preallocated memory.

For small models, autograd's bookkeeping, and writing gradients that are read only once, cost more
than the arithmetic. Here a step is a chain of batched products, and plain SGD updates a weight
within the product that computes its gradient. The arithmetic takes a quarter of the time of a small
product; the rest is finding its operands and memory, which is done once for all steps of a cohort.
`benchmarks/training.py` shows the gain; tests compare it with autograd.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from simfl.learning.kernels.dense import DenseChain, DenseLayer, OutputSlopes
from simfl.learning.kernels.stacked_product import Library, aligned, aligned_empty, library
from simfl.learning.parameters import Parameters

Slope = Callable[[Tensor], Tensor]
"""The gradient of the loss by a chain's outputs (jobs, outputs, rows), in their shape."""


class _Laid:
    """A layer's tensors, and memory for the results of one step; only some layers and libraries
    need all of it.
    """

    def __init__(
        self, layer: DenseLayer, parameters: Parameters, rows: int, by: Library, *, last: bool
    ) -> None:
        self.layer = layer
        self.weight = weight = parameters[layer.weight]
        self.bias = None if layer.bias is None else parameters[layer.bias]
        # The last layer's outputs have their rows last, as `OutputSlopes` expects.
        self.added = None if self.bias is None else self.bias.unsqueeze(2 if last else 1)
        jobs, outputs, _ = weight.shape
        shape = (outputs, rows) if last else (rows, outputs)
        self.outputs = aligned_empty(weight, jobs, *shape)
        self.operands = by.operand(weight), by.operand(self.outputs)
        self._rows = rows

    @cached_property
    def below(self) -> Tensor:
        """Memory for the gradient by its inputs: (jobs, rows, features)."""
        jobs, _, features = self.weight.shape
        return aligned_empty(self.weight, jobs, self._rows, features)

    @cached_property
    def gradient(self) -> Tensor:
        """Memory for the gradient of its weight: (jobs, outputs, features)."""
        return aligned_empty(self.weight, *self.weight.shape)


class DenseSteps(ABC):
    """Steps of a stacked chain, all with the same number of rows; subclasses use the gradients.

    `parameters` (jobs, ...) may be changed in place between steps. The results of a step are
    overwritten by the next one.
    """

    def __init__(self, chain: DenseChain, parameters: Parameters, rows: int) -> None:
        self.by = library(parameters[chain.layers[0].weight])
        last = chain.layers[-1]
        self._layers = [
            _Laid(layer, parameters, rows, self.by, last=layer is last) for layer in chain
        ]

    def step(self, inputs: Tensor, slope: Slope) -> None:
        """Forward and backward on inputs (jobs, rows, ...)."""
        by, last = self.by, self._layers[-1]
        values = [aligned(inputs.flatten(2))]
        entering = [by.operand(values[0])]
        with by.quiet():
            for one in self._layers[:-1]:
                weight, outputs = one.operands
                by.into(entering[-1], weight.mT, outputs)
                if one.added is not None:
                    one.outputs.add_(one.added)
                values.append(one.outputs.relu_() if one.layer.relu else one.outputs)
                entering.append(outputs)
            weight, outputs = last.operands
            by.into(weight, entering[-1].mT, outputs)
            if last.added is not None:
                last.outputs.add_(last.added)
            self._back(values, entering, aligned(slope(last.outputs).transpose(1, 2)))

    def _back(self, values: list[Tensor], entering: list[Any], slope: Tensor) -> None:
        """The backward pass, from the gradient by the outputs, `slope`.

        values, entering: each layer's inputs, as tensors and operands. All of them are (jobs, rows,
        ...).
        """
        by, turned = self.by, self.by.operand(slope).mT
        for place in reversed(range(len(self._layers))):
            one = self._layers[place]
            if place:  # before `take`, which may change the weight
                below = by.operand(one.below)
                by.into(turned.mT, one.operands[0], below)
            self.take(one, turned, entering[place], None if one.bias is None else slope.sum(1))
            if place:
                slope, turned = one.below, below.mT
                if self._layers[place - 1].layer.relu:
                    held = values[place]
                    torch.ops.aten.threshold_backward.grad_input(slope, held, 0, grad_input=slope)

    @abstractmethod
    def take(self, one: _Laid, turned: Any, inputs: Any, bias: Tensor | None) -> None:
        """Use a layer's gradients.

        That of its weight is the product of two operands: turned (jobs, outputs, rows), the
        gradient by the layer's outputs, and inputs (jobs, rows, features). bias: the gradient of
        its bias, if it has one.
        """


class Descent(DenseSteps):
    """Plain SGD, with rates in the slopes: a step makes kept * w - gradient + shift of a parameter
    w.

    `kept` and `shift` hold tensors by parameter name; other parameters are multiplied by `share`,
    which is the same for all jobs.
    """

    def __init__(
        self,
        chain: DenseChain,
        parameters: Parameters,
        rows: int,
        kept: Parameters,
        shift: Parameters,
        share: float = 1.0,
    ) -> None:
        super().__init__(chain, parameters, rows)
        self._parameters, self._kept, self._shift, self._share = parameters, kept, shift, share

    def take(self, one: _Laid, turned: Any, inputs: Any, bias: Tensor | None) -> None:
        """Update the layer's parameters."""
        if self._kept:
            for name in one.layer.names:
                if name in self._kept:
                    self._parameters[name].mul_(self._kept[name])
        self.by.subtract(one.weight, turned, inputs, lambda: one.gradient, self._share)
        if one.bias is not None and bias is not None:
            if self._share != 1.0:
                one.bias.mul_(self._share)
            one.bias.sub_(bias)
        if self._shift:
            for name in one.layer.names:
                if name in self._shift:
                    self._parameters[name].add_(self._shift[name])


class Gradients(DenseSteps):
    """The gradients of the last step, in `found` by parameter name."""

    def __init__(self, chain: DenseChain, parameters: Parameters, rows: int) -> None:
        super().__init__(chain, parameters, rows)
        self.found: Parameters = {}

    def take(self, one: _Laid, turned: Any, inputs: Any, bias: Tensor | None) -> None:
        """Keep them until the next step."""
        self.by.into(turned, inputs, self.by.operand(one.gradient))
        self.found[one.layer.weight] = one.gradient
        if one.layer.bias is not None and bias is not None:
            self.found[one.layer.bias] = bias


def descended(
    chain: DenseChain,
    model: Parameters,
    inputs: Tensor,
    slopes: OutputSlopes,
    steps: int,
    share: float,
) -> Parameters:
    """A stacked model after steps on one mini-batch, each pulled back to its start by `share`.

    slopes: the gradients of that batch, including rates.
    """
    moved = {name: one.clone() for name, one in model.items()}
    moved |= {layer.weight: aligned(moved[layer.weight]) for layer in chain}
    back = {name: share * one for name, one in model.items()}
    descent = Descent(chain, moved, inputs.shape[1], {}, back, 1 - share)
    for _ in range(steps):
        descent.step(inputs, partial(slopes.at, 0))
    return moved
