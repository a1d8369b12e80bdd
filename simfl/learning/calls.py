"""Counts the torch operations of other code while it runs, by passes and their rows.

A call of a module from outside any other module is a pass: training or evaluation. Counting the
rows of a pass costs one hook per layer. The work of a row is counted by `count_work`, once for
every form of a module (its class and shapes), on a copy, and so is the memory that training it
needs. Counting single operations takes at least as long as the training itself, and is done only on
request.
"""

from __future__ import annotations

import copy
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.optim.optimizer import register_optimizer_step_post_hook

from simfl.common.model_work import ModelWork
from simfl.common.training_memory import TrainingMemory
from simfl.learning.parameters import BYTES_PER_VALUE
from simfl.learning.stored_activations import kept_bytes
from simfl.learning.work import Operations, count_work
from simfl.streams import process_generators

Found = TypeVar("Found")


@dataclass
class Passes:
    """The rows and calls of one form of module, with training and without.

    Training: `trained` and `steps`; otherwise: `looked` and `looks`.

    `held_bytes` is the largest memory of a training call: weights, gradients and what its rows
    store for the backward pass; 0 if unknown.
    """

    trained: float = 0.0
    steps: float = 0.0
    looked: float = 0.0
    looks: float = 0.0
    held_bytes: float = 0.0


@dataclass
class Call:
    """What was counted: passes by form, and operations by kind (None: not counted).

    `frozen` tells whether some of the weights were not trained; `optimizers` maps each optimizer's
    identity to the bytes of its state.
    """

    passes: dict[str, Passes] = field(default_factory=dict)
    operations: Counter[str] | None = None
    frozen: bool = False
    optimizers: dict[int, float] = field(default_factory=dict)


class _Nesting(threading.local):
    """Where a thread is: how many modules' calls deep, and whether a call is being counted."""

    depth = 0
    counting = False


class CallCounter:
    """Counts calls, and caches each form's work and memory per row (None: could not be counted)."""

    def __init__(self) -> None:
        self.work: dict[str, ModelWork | None] = {}
        self._memory: dict[tuple[str, tuple[bool, ...]], TrainingMemory | None] = {}

    @contextmanager
    def watching(self, *, operations: bool = False) -> Iterator[Call]:
        """Counts until the end of the block; with `operations`, every single operation, too."""
        call, nesting = Call(), _Nesting()
        own_thread, one_at_a_time = threading.get_ident(), threading.Lock()

        def enter(module: nn.Module, given: Any) -> None:
            nesting.depth += not nesting.counting

        def leave(module: nn.Module, given: Any, *others: Any) -> None:
            if nesting.counting:
                return
            nesting.depth -= 1
            named, made = others if len(others) == 2 else ({}, None)  # a failed call has no result
            if nesting.depth or made is None or next(module.parameters(), None) is None:
                return
            nesting.counting = True
            try:
                with one_at_a_time:
                    self._seen(call, module, given, named, made)
                    if threading.get_ident() != own_thread:
                        call.operations = None  # other threads' operations are not seen
            finally:
                nesting.counting = False

        def multiplied(name: str, flops: int, given: tuple[Any, ...], made: Any) -> None:
            if not nesting.counting and call.operations is not None:
                call.operations[_kind(name, given)] += flops

        def stepped(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            if id(optimizer) not in call.optimizers:
                call.optimizers[id(optimizer)] = _state_bytes(optimizer)

        with ExitStack() as stack:
            stack.callback(register_optimizer_step_post_hook(stepped).remove)
            stack.callback(register_module_forward_pre_hook(enter).remove)
            hook = register_module_forward_hook(leave, with_kwargs=True, always_call=True)
            stack.callback(hook.remove)
            if operations:
                call.operations = Counter()
                stack.enter_context(Operations(multiplied))
            yield call

    def _seen(self, call: Call, module: nn.Module, given: Any, named: Any, made: Any) -> None:
        tensors = [one for one in (*given, *named.values()) if isinstance(one, Tensor)]
        shapes = [one.shape for one in tensors if one.dim()]
        rows = shapes[0][0] if shapes else 1
        wanted = tuple(one.requires_grad for one in module.parameters())
        trains = torch.is_grad_enabled() and _needs_gradient(made)
        call.frozen |= trains and not all(wanted)
        form = _form(module, tensors)
        if form not in self.work:
            self.work[form] = None if named else _of_a_row(count_work, module, given, rows)
        passes = call.passes.setdefault(form, Passes())
        if trains:
            passes.trained += rows
            passes.steps += 1
            if (form, wanted) not in self._memory:
                held = None if named else _of_a_row(_memory, module, given, rows)
                self._memory[form, wanted] = held
            if (memory := self._memory[form, wanted]) is not None:
                passes.held_bytes = max(passes.held_bytes, float(memory.needed_bytes(rows, 0)))
        else:
            passes.looked += rows
            passes.looks += 1


def _form(module: nn.Module, tensors: list[Tensor]) -> str:
    """Equal for modules of the same class and shapes with inputs of the same shapes."""
    weights = [tuple(one.shape) for one in module.parameters()]
    inputs = [tuple(one.shape[1:]) for one in tensors]
    return f"{type(module).__qualname__}{weights}{inputs}"


def _of_a_row(
    count: Callable[..., Found], module: nn.Module, given: tuple[Any, ...], rows: int
) -> Found | None:
    """What `count` finds for one row, on a copy, so that the training is not affected.

    A module may draw from any generator, and may raise any error for a batch of one row.
    """
    if not all(isinstance(one, Tensor) for one in given):
        return None
    example = [one.detach()[:1] if one.dim() and len(one) == rows else one for one in given]
    with torch.random.fork_rng(devices=[]), process_generators(0):
        try:
            return count(copy.deepcopy(module), *example)
        except Exception:  # noqa: BLE001  # somebody else's module
            return None


def _memory(module: nn.Module, *example: Tensor) -> TrainingMemory:
    """The memory for training the module: for its weights, and per row."""
    weights = [one for one in module.parameters() if one.is_floating_point()]
    buffers = [one for one in module.buffers() if one.is_floating_point()]
    model, trained = (
        float(BYTES_PER_VALUE * sum(one.numel() for one in those))
        for those in ([*weights, *buffers], [one for one in weights if one.requires_grad])
    )
    return TrainingMemory(model, trained, kept_bytes(module, *example))


def _state_bytes(optimizer: torch.optim.Optimizer) -> float:
    """The bytes of an optimizer's state, without its step counters."""
    states = [one for kept in optimizer.state.values() for one in kept.values()]
    tensors = [one for one in states if isinstance(one, Tensor) and one.dim()]
    return float(BYTES_PER_VALUE * sum(one.numel() for one in tensors))


def _needs_gradient(made: Any) -> bool:
    if isinstance(made, Tensor):
        return made.requires_grad
    if isinstance(made, dict):
        return any(map(_needs_gradient, made.values()))
    if isinstance(made, list | tuple):
        return any(map(_needs_gradient, made))
    return False


def _kind(name: str, given: tuple[Any, ...]) -> str:
    """The kind (as in `ModelWork`) of an operation that multiplies."""
    if not name.startswith("conv"):
        return "dense"
    backward = name.startswith("convolution_backward")
    groups, channels = (given[9], given[1]) if backward else (given[8], given[0])
    return "depthwise" if 1 < groups == channels.shape[1] else "convolution"
