"""A perceptron's pass as one autograd step, for any loss: hand-written forward and backward.

The trainer's own backward pass may keep a weight's gradient as its two factors, so that plain SGD
updates the weight within their product, as for the plain loss. This is the gradient of one pass;
autograd returns other contributions of the loss separately. Values of fixed layers are computed
once for each of a client's rows.
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
from simfl.learning.kernels.row_cache import RowCache
from simfl.learning.kernels.stacked_product import aligned, product
from simfl.learning.parameters import Parameters

MOST_REMEMBERED = 4
"""Most values remembered per row, as a multiple of the values of its inputs."""


class Factors:
    """Gradients of weights, by name, as pairs of slope (jobs, rows, outputs) and inputs.

    The gradient of a weight is the sum of `slope^T inputs` over its pairs. `weights` are the
    weights concerned, by name; a pass must be given the same tensor objects.
    """

    def __init__(self, weights: Parameters) -> None:
        self._names = {id(tensor): name for name, tensor in weights.items()}
        self._weights = weights  # keeps them alive, so that their IDs stay unique
        self._open = False
        self.found: list[tuple[str, Tensor, Tensor]] = []

    def name(self, weight: Tensor) -> str | None:
        """The name of one of these weights; None for any other tensor."""
        return self._names.get(id(weight))

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Within the block, backward passes store factors here; outside, autograd gets their
        products.
        """
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
    """The rows of a pass: their `places` in all data (jobs, rows), and `valid`, 1 for each valid
    row.
    """

    row_cache: RowCache
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
    """The outputs (jobs, rows, outputs) of stacked models, and the inputs of layer `heard`.

    inputs: (jobs, rows, ...); rows: which rows they are, if known. Not differentiable twice.
    """
    entering = inputs.flatten(2)
    still = _still(chain, parameters, heard or len(chain.layers) - 1) if rows is not None else 0
    width = parameters[chain.layers[still].weight].shape[2]
    if rows is not None and still and width <= MOST_REMEMBERED * entering.shape[2]:
        fixed = [parameters[name] for layer in chain.layers[:still] for name in layer.names]
        through = partial(chain.entering, parameters, entering, still)
        entering = rows.row_cache.values(fixed, rows.places, rows.valid, lambda: through()[-1])
        chain, heard = DenseChain(chain.layers[still:]), max(heard - still, 0)
    names = [None if factors is None else factors.name(parameters[one.weight]) for one in chain]
    tensors = [parameters[name] for layer in chain for name in layer.names]
    found: tuple[Tensor, ...] = _DensePass.apply(  # type: ignore[no-untyped-call]
        chain, factors, names, heard, entering, *tensors
    )
    return found[0], found[1] if heard else entering


def _still(chain: DenseChain, parameters: Parameters, most: int) -> int:
    """How many of the first `most` layers, counted from the first, have no gradient."""
    for place, layer in enumerate(chain.layers[:most]):
        if any(parameters[name].requires_grad for name in layer.names):
            return place
    return most


class _DensePass(torch.autograd.Function):
    """The pass for inputs (jobs, rows, features), and each layer's weight and bias (if any)."""

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
        # for the inputs, and for each layer's tensors
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
    """Whether a layer's gradient is kept as its factors."""
    return ctx.factors is not None and ctx.factors.takes(ctx.names[place], slope, inputs)


def _lowest(layers: tuple[DenseLayer, ...], wanted: dict[str, bool], *, inputs: bool) -> int:
    """The first layer whose gradient is needed."""
    if inputs:
        return 0
    asked = (place for place, one in enumerate(layers) if any(wanted[name] for name in one.names))
    return next(asked, len(layers) - 1)
