"""Counts the activations that a forward pass stores for the backward pass."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from simfl.learning.parameters import BYTES_PER_VALUE
from simfl.learning.work import memory_of, on_meta


def kept_bytes(module: nn.Module, *example: Tensor, by_layers: bool = False) -> float:
    """Bytes that autograd stores in one example's pass, without the model's own tensors.

    Tensors that share memory are counted once, with all of that memory. As in `count_work`, the
    pass runs on the meta device unless `by_layers` is set or the module cannot run there. Floating-
    point values count as float32, whatever the module's type.
    """
    return on_meta(_kept, module, example, as_it_is=by_layers)


def _kept(module: nn.Module, example: tuple[Tensor, ...]) -> float:
    own = {memory_of(one) for one in (*module.parameters(), *module.buffers())}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        # Detached: a node that keeps its own output would otherwise hold itself, for ever.
        kept[memory_of(tensor)] = tensor.detach()
        return kept[memory_of(tensor)]

    was_training = module.training
    module.eval()  # BatchNorm cannot normalise a batch of one
    try:
        with torch.enable_grad(), saved_tensors_hooks(keep, lambda tensor: tensor):
            outputs = module(*example)
    finally:
        module.train(was_training)
    del outputs
    return float(sum(_bytes(one) for place, one in kept.items() if place not in own))


def _bytes(tensor: Tensor) -> int:
    """The bytes of the whole storage, which a view of a part keeps alive."""
    stored = tensor.untyped_storage().nbytes()
    if tensor.is_floating_point():
        return BYTES_PER_VALUE * (stored // tensor.element_size())
    return stored
