"""The work of a model by kind, from which a device's training time is computed."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils._python_dispatch import TorchDispatchMode

from simfl.common.model_work import ModelWork
from simfl.learning.parameters import BYTES_PER_VALUE

Found = TypeVar("Found")

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_RECURRENT = (nn.RNNBase, nn.RNNCellBase)
_COUNTED = (nn.Linear, *_CONVOLUTIONS, *_TRANSPOSED, *_RECURRENT)
_MOVES_NOTHING = (nn.Identity, nn.Flatten, nn.Unflatten)


def count_work(module: nn.Module, *example: Tensor, by_layers: bool = False) -> ModelWork:
    """The work of `module`, from one pass with `example`: its inputs, one row each.

    Only shapes and types matter, not values. Linear, convolution and recurrent layers are counted
    by formulas of their own, recurrent ones by their weights, since on a CPU they are single
    operations to torch. Other products are counted operation by operation with torch's formulas;
    `by_layers` states that there are none. The pass runs on the meta device, without computing;
    with `by_layers`, or if the module cannot run there, it runs as it is.
    """
    walk = partial(_walked, by_layers=by_layers)
    return on_meta(walk, module, example, as_it_is=by_layers)


def on_meta(
    look: Callable[[nn.Module, tuple[Tensor, ...]], Found],
    module: nn.Module,
    example: tuple[Tensor, ...],
    *,
    as_it_is: bool,
) -> Found:
    """The result of `look` for a copy on the meta device; if that fails, for the module itself."""
    if as_it_is:
        return look(module, example)
    try:
        copied = copy.deepcopy(module).to("meta")
        return look(copied, tuple(one.to("meta") for one in example))
    except (RuntimeError, NotImplementedError):
        return look(module, example)


def _walked(module: nn.Module, example: tuple[Tensor, ...], by_layers: bool) -> ModelWork:
    count = _Count(module)
    handles = [
        handle
        for layer in module.modules()
        if not list(layer.children())
        for handle in (
            layer.register_forward_pre_hook(count.enter),
            layer.register_forward_hook(count.leave, with_kwargs=True),
        )
    ]
    was_training, fast = module.training, torch.backends.mha.get_fastpath_enabled()
    module.eval()
    # Attention's fast path is a single operation, which has no formula.
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad(), nullcontext() if by_layers else Operations(count.product):
            module(*example)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        module.train(was_training)
        for handle in handles:
            handle.remove()
    return count.work()


class _Count:
    """The counts of one pass of `module`, so far."""

    def __init__(self, module: nn.Module) -> None:
        self._flops: Counter[str] = Counter()
        self._values = self._places = 0
        self._tables: dict[int, int] = {}
        self._kernels: dict[int, int] = {}
        self._inside: list[nn.Module] = []
        self._weights = {memory_of(one) for one in module.parameters()}
        self._parameters = sum(one.numel() for one in module.parameters())

    def work(self) -> ModelWork:
        """The total."""
        return ModelWork(
            **{kind: float(flops) for kind, flops in self._flops.items()},
            embedding=2.0 * sum(self._tables.values()),
            traffic_bytes=float(BYTES_PER_VALUE * self._values),
            recurrent_places=float(self._places),
            update=2.0 * (self._parameters - sum(self._tables.values())),
            kernels=2.0 * sum(self._kernels.values()),
        )

    def enter(self, layer: nn.Module, _: object) -> None:
        """Called before a layer."""
        self._inside.append(layer)

    def leave(self, layer: nn.Module, given: Any, named: Any, made: Any) -> None:
        """Called after a layer."""
        self._inside.pop()
        tensors = list(_tensors([given, named]))
        if not isinstance(layer, _MOVES_NOTHING):
            self._values += sum(one.numel() for one in (*tensors, *_tensors(made)))
        weight = getattr(layer, "weight", None)
        if isinstance(layer, _RECURRENT):
            self._recurrent(layer, given[0])
        elif isinstance(layer, nn.Embedding | nn.EmbeddingBag):
            self._tables[memory_of(layer.weight)] = layer.weight.numel()
        elif isinstance(layer, _COUNTED) and isinstance(weight, Tensor):
            # Per output value, one row of weights is multiplied; per input value in a transposed
            # layer.
            values = tensors[0] if isinstance(layer, _TRANSPOSED) else made
            depthwise = 1 < getattr(layer, "groups", 1) == getattr(layer, "in_channels", 0)
            kind = "depthwise" if depthwise else "convolution"
            kind = "dense" if isinstance(layer, nn.Linear) else kind
            self._flops[kind] += 2 * values.numel() * weight[0].numel()
            if kind != "dense":
                self._kernels[id(weight)] = weight.numel()

    def product(self, name: str, flops: int, given: tuple[Any, ...], made: Any) -> None:
        """Counts an operation that multiplies, unless its layer is counted by a formula."""
        if self._inside and isinstance(self._inside[-1], _COUNTED):
            return
        tensors = list(_tensors(given))
        groups = given[8] if name.startswith("conv") and len(given) > 8 else 1
        kind = "convolution" if name.startswith("conv") else "dense"
        self._flops["depthwise" if 1 < groups == tensors[0].shape[1] else kind] += flops
        if not self._inside:
            activations = [one for one in tensors if memory_of(one) not in self._weights]
            self._values += sum(one.numel() for one in (*activations, *_tensors(made)))

    def _recurrent(self, layer: nn.Module, given: Tensor | PackedSequence) -> None:
        """Every position of every row is multiplied by every weight."""
        rows = (given.data if isinstance(given, PackedSequence) else given).shape[:-1].numel()
        length, passes = 1, 1
        if isinstance(layer, nn.RNNBase):
            passes = layer.num_layers * (2 if layer.bidirectional else 1)
            if isinstance(given, PackedSequence):
                length = len(given.batch_sizes)
            else:
                length = given.shape[1 if layer.batch_first and given.dim() == 3 else 0]
        named = layer.named_parameters()
        weights = sum(one.numel() for name, one in named if name.startswith("weight"))
        self._flops["recurrent"] += 2 * rows * weights
        self._places += length * passes


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's gap
    """Calls `found` with name, operations, arguments and result of every multiplying operation."""

    def __init__(self, found: Callable[[str, int, tuple[Any, ...], Any], None]) -> None:
        from torch.utils.flop_counter import flop_registry

        super().__init__()  # type: ignore[no-untyped-call]  # torch's gap
        self._formulas = flop_registry
        self._found = found

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run the operation, or decompose it."""
        named = kwargs or {}
        formula = self._formulas.get(func.overloadpacket)
        if formula is None:
            with self:
                made = func.decompose(*args, **named)
            if made is not NotImplemented:
                return made
        made = func(*args, **named)
        if formula is not None:
            flops = formula(*args, **named, out_val=made)
            self._found(func.overloadpacket.__name__, flops, args, made)
        return made


def _tensors(given: Any) -> Iterator[Tensor]:
    """All tensors in nested sequences and mappings."""
    if isinstance(given, Tensor):
        yield given
    elif isinstance(given, PackedSequence):
        yield given.data
    elif isinstance(given, dict):
        yield from _tensors(list(given.values()))
    elif isinstance(given, list | tuple):
        for one in given:
            yield from _tensors(one)


def memory_of(tensor: Tensor) -> int:
    """An identifier of the memory that holds a tensor's values; equal for all views of it."""
    place: int = tensor.untyped_storage()._cdata
    return place
