"""Stacks of Linear layers with ReLU, and the gradients of losses by their outputs.

Their gradients are hand-written: in `dense_steps.py` for the plain loss, in `dense_pass.py` for any
loss.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from simfl.learning.kernels.stacked_product import aligned, product
from simfl.learning.objective import Objective
from simfl.learning.parameters import Parameters


@dataclass(frozen=True)
class DenseLayer:
    """One Linear layer: its parameters' names, and whether ReLU follows it."""

    weight: str
    bias: str | None
    relu: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its parameters."""
        return (self.weight,) if self.bias is None else (self.weight, self.bias)


class DenseChain:
    """The layers of a multi-layer perceptron or a linear model, first to last."""

    def __init__(self, layers: Sequence[DenseLayer]) -> None:
        self.layers = tuple(layers)

    def __iter__(self) -> Iterator[DenseLayer]:
        return iter(self.layers)

    def place(self, module: str) -> int:
        """The index of a layer by its module's name; 0 if it is not among the layers."""
        weights = [layer.weight for layer in self.layers]
        return weights.index(f"{module}.weight") if f"{module}.weight" in weights else 0

    def entering(
        self, parameters: Parameters, inputs: Tensor, last: int | None = None
    ) -> list[Tensor]:
        """The inputs of each layer up to `last`, from inputs (jobs, rows, features): (jobs, rows,
        ...).

        None: up to the last layer.
        """
        values = [aligned(inputs)]
        for layer in self.layers[: -1 if last is None else last]:
            weight = aligned(parameters[layer.weight])
            outputs = product(values[-1], weight.transpose(1, 2))
            if layer.bias is not None:
                outputs.add_(parameters[layer.bias].unsqueeze(1))
            values.append(outputs.relu_() if layer.relu else outputs)
        return values


def dense_chain(chain: Sequence[tuple[str, nn.Module]]) -> DenseChain | None:
    """The hand-written form of a chain of modules; None if there is none.

    It needs Linear layers with at most a Flatten before the first, and at most a ReLU between two.
    """
    layers: list[DenseLayer] = []
    for name, module in chain:
        if type(module) is nn.Linear:
            tensors = dict(module.named_parameters())
            bias = f"{name}.bias" if "bias" in tensors else None
            layers.append(DenseLayer(f"{name}.weight", bias, relu=False))
        elif type(module) is nn.ReLU and layers:
            layers[-1] = DenseLayer(layers[-1].weight, layers[-1].bias, relu=True)
        elif type(module) is nn.Flatten and not layers:
            if (module.start_dim, module.end_dim) != (1, -1):
                return None
        elif type(module) is not nn.Identity:
            return None
    return DenseChain(layers) if layers and not layers[-1].relu else None


class OutputSlopes:
    """Gradients of the weighted losses of `Objective.per_example` by the outputs, for all steps.

    targets: (steps, jobs, rows, ...); weights: (steps, jobs, rows), the weight of each row's loss.
    What does not depend on the outputs is prepared once: a step of a small model consists of dozens
    of calls, each of which costs as much as its arithmetic.
    """

    def __init__(self, objective: Objective, targets: Tensor, weights: Tensor) -> None:
        self._classes = objective.task == "classification"
        self._right = (targets.unsqueeze(2) if self._classes else targets.transpose(2, 3)).unbind()
        self._weights = weights.unsqueeze(2).unbind()
        self._less = weights.new_tensor(-1.0).expand_as(self._right[0]) if self._classes else None

    def at(self, step: int, outputs: Tensor) -> Tensor:
        """The gradient at one step for outputs (live jobs, outputs, rows), in their shape.

        Rows are last because softmax over a short last axis is ten times slower.
        """
        live = outputs.shape[0]
        right, weights, less = self._right[step], self._weights[step], self._less
        if live < right.shape[0]:
            right, weights = right[:live], weights[:live]
            less = None if less is None else less[:live]
        if less is None:
            return (outputs - right).mul_(2).mul_(weights)
        return class_slopes(outputs, right, weights, less)


def class_slopes(
    outputs: Tensor, right: Tensor, weights: Tensor, less: Tensor | None = None
) -> Tensor:
    """Gradient of weighted cross entropies by the outputs (jobs, classes, rows), in their shape.

    right: (jobs, 1, rows), the correct classes; weights: (jobs, 1, rows), the weight of each row's
    loss; less: -1 in the shape of `right`, if available.
    """
    shares = torch.softmax(outputs, 1)
    if outputs.device.type == "cpu":
        less = shares.new_full((), -1.0).expand_as(right) if less is None else less
        return shares.scatter_add_(1, right, less).mul_(weights)
    return less_the_right(shares, right).mul_(weights)


def less_the_right(shares: Tensor, right: Tensor) -> Tensor:
    """Subtract 1 from shares (jobs, classes, rows) at the correct classes (jobs, 1, rows), in
    place.

    Bitwise equal to adding to single elements, which CUDA can only do deterministically by sorting.
    """
    classes = torch.arange(shares.shape[1], device=shares.device).view(1, -1, 1)
    return shares.sub_((classes == right).to(shares.dtype))
