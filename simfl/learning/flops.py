"""How many floating-point operations a model takes, as the cost of training on a device."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn


def forward_flops(
    module: nn.Module, input_shape: tuple[int, ...], dtype: torch.dtype, by_layers: bool
) -> float:
    """Operations of one example's forward pass in matrix products and convolutions.

    A multiply-add counts two. `by_layers` says that Linear and Conv2d modules are all that has
    such operations; then they are counted on one example of zeros. Else every operation is looked
    at, which takes a second to load: on the meta device, without computing, or, for a module that
    cannot run there, on that example.
    """
    like = next(module.parameters(), torch.zeros(0))
    example = torch.zeros(1, *input_shape, dtype=dtype, device=like.device)
    if by_layers:
        return _by_layers(module, example)
    try:
        return _by_operations(copy.deepcopy(module).to("meta"), example.to("meta"))
    except (RuntimeError, NotImplementedError):
        return _by_operations(module, example)


def _by_layers(module: nn.Module, example: Tensor) -> float:
    total = 0

    def add(layer: nn.Module, _: object, outputs: Tensor) -> None:
        nonlocal total
        assert isinstance(layer.weight, Tensor)
        total += 2 * outputs.numel() * layer.weight[0].numel()

    layers = [one for one in module.modules() if isinstance(one, nn.Linear | nn.Conv2d)]
    handles = [layer.register_forward_hook(add) for layer in layers]
    try:
        _evaluate(module, example)
    finally:
        for handle in handles:
            handle.remove()
    return float(total)


def _by_operations(module: nn.Module, example: Tensor) -> float:
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    with counter:
        _evaluate(module, example)
    return float(counter.get_total_flops())


def _evaluate(module: nn.Module, example: Tensor) -> None:
    was_training = module.training
    module.eval()
    with torch.no_grad():
        module(example)
    module.train(was_training)
