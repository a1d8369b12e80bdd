"""A perceptron's pass as one autograd step, under any loss: forward and backward by hand.

The trainer's own backward pass may leave a weight's gradient as the two factors that it is the
product of, so that plain SGD descends inside that product, as it does under the plain loss. It is
the gradient of one pass; what else of the loss a weight enters autograd hands back beside it.
What layers that stand still make of a client's rows is computed once for each row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from simfl.learning.kernels.dense import DenseChain, DenseLayer
from simfl.learning.kernels.stacked_product import aligned, product
from simfl.learning.kernels.standing import Standing
from simfl.learning.parameters import Parameters

MOST_REMEMBERED = 4
"""Values of a row that are remembered, at most, as a multiple of those of its inputs."""


class Factors:
    """Gradients of weights, by name, as pairs of slope (jobs, rows, outputs) and inputs.

    The gradient of a weight is the sum of `slope^T inputs` over its pairs. `weights` are those
    that count, by name; they must be the very tensors that a pass is given.
    """

    def __init__(self, weights: Parameters) -> None:
        self._names = {id(tensor): name for name, tensor in weights.items()}
        self._weights = weights  # so that no other tensor takes the place of one of them
        self._open = False
        self.found: list[tuple[str, Tensor, Tensor]] = []

    def name(self, weight: Tensor) -> str | None:
        """The name of a weight that counts, None of any other tensor."""
        return self._names.get(id(weight))

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Within, backward passes put factors here; without, autograd gets their products."""
        self._open = True
        try:
            yield
        finally:
            self._open = False

    def takes(self, name: str | None, slope: Tensor, inputs: Tensor) -> bool:
        """Whether a gradient is kept as these factors."""
        if name is None or not self._open:
            return False
        self.found.append((name, slope, inputs))
        return True


@dataclass(frozen=True)
class Rows:
    """Of which rows a pass is: their `places` in all data (jobs, rows), 1 for each `valid` one."""

    standing: Standing
    places: Tensor
    valid: Tensor


def dense_pass(
    chain: DenseChain,
    parameters: Parameters,
    inputs: Tensor,
    *,
    factors: Factors | None = None,
    rows: Rows | None = None,
    heard: int = 0,
) -> tuple[Tensor, Tensor]:
    """The outputs (jobs, rows, outputs) of stacked models, and what enters layer `heard`.

    inputs: (jobs, rows, ...); rows: which they are, if that is known. Not differentiable twice.
    """
    entering = inputs.flatten(2)
    still = _still(chain, parameters, heard or len(chain.layers) - 1) if rows is not None else 0
    width = parameters[chain.layers[still].weight].shape[2]
    if rows is not None and still and width <= MOST_REMEMBERED * entering.shape[2]:
        fixed = [parameters[name] for layer in chain.layers[:still] for name in layer.names]
        through = partial(chain.entering, parameters, entering, still)
        entering = rows.standing.values(fixed, rows.places, rows.valid, lambda: through()[-1])
        chain, heard = DenseChain(chain.layers[still:]), max(heard - still, 0)
    names = [None if factors is None else factors.name(parameters[one.weight]) for one in chain]
    tensors = [parameters[name] for layer in chain for name in layer.names]
    found: tuple[Tensor, ...] = _DensePass.apply(  # type: ignore[no-untyped-call]
        chain, factors, names, heard, entering, *tensors
    )
    return found[0], found[1] if heard else entering


def _still(chain: DenseChain, parameters: Parameters, most: int) -> int:
    """How many layers, from the first one on and of the first `most`, have no gradient."""
    for place, layer in enumerate(chain.layers[:most]):
        if any(parameters[name].requires_grad for name in layer.names):
            return place
    return most


class _DensePass(torch.autograd.Function):
    """Of inputs (jobs, rows, features), and each layer's weight and bias, if it has one."""

    @staticmethod
    def forward(
        ctx: Any,
        chain: DenseChain,
        factors: Factors | None,
        names: list[str | None],
        heard: int,
        inputs: Tensor,
        *tensors: Tensor,
    ) -> tuple[Tensor, ...]:
        given = iter(tensors)
        parameters = {name: next(given) for layer in chain for name in layer.names}
        for layer in chain:
            parameters[layer.weight] = aligned(parameters[layer.weight])
        values = chain.entering(parameters, inputs)
        last = chain.layers[-1]
        outputs = product(values[-1], parameters[last.weight].transpose(1, 2))
        if last.bias is not None:
            outputs.add_(parameters[last.bias].unsqueeze(1))
        ctx.chain, ctx.factors, ctx.names, ctx.heard = chain, factors, names, heard
        ctx.save_for_backward(*values, *(parameters[layer.weight] for layer in chain))
        return (outputs, values[heard]) if heard else (outputs,)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor, *others: Tensor) -> tuple[Any, ...]:
        layers = ctx.chain.layers
        values, weights = ctx.saved_tensors[: len(layers)], ctx.saved_tensors[len(layers) :]
        # of the inputs, and of each layer's tensors
        needs = list(ctx.needs_input_grad[4:])
        found: dict[str, Tensor | None] = {}
        wanted = dict(zip((name for one in layers for name in one.names), needs[1:], strict=True))
        lowest = _lowest(layers, wanted, inputs=needs[0])
        for place in reversed(range(lowest, len(layers))):
            layer, slope = layers[place], aligned(slope)
            if wanted[layer.weight] and not _kept(ctx, place, slope, values[place]):
                found[layer.weight] = product(slope.transpose(1, 2), values[place])
            if layer.bias is not None and wanted[layer.bias]:
                found[layer.bias] = slope.sum(1)
            if place > lowest or (place == 0 and needs[0]):
                slope = product(slope, weights[place])
                if place and place == ctx.heard:
                    slope.add_(others[0])
                if place and layers[place - 1].relu:
                    slope = torch.ops.aten.threshold_backward(slope, values[place], 0)
        gradients = [found.get(name) for name in wanted]
        return None, None, None, None, slope if needs[0] else None, *gradients


def _kept(ctx: Any, place: int, slope: Tensor, inputs: Tensor) -> bool:
    """Whether a layer's gradient stays in its factors."""
    return ctx.factors is not None and ctx.factors.takes(ctx.names[place], slope, inputs)


def _lowest(layers: tuple[DenseLayer, ...], wanted: dict[str, bool], *, inputs: bool) -> int:
    """The first layer that a gradient is asked of."""
    if inputs:
        return 0
    asked = (place for place, one in enumerate(layers) if any(wanted[name] for name in one.names))
    return next(asked, len(layers) - 1)
