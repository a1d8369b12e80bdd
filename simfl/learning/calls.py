"""What somebody else's code has torch do, counted while it runs: whose passes, of how many rows.

A module that is called, and not by another one, is what is trained or looked through. How many rows
it was given is counted in every call, which costs a hook per layer. What a row costs is counted by
`count_work`, once for every form of module (its class and shapes), on a copy. Counting the
operations themselves takes as long as the training again, or many times that: only where it is
asked for.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

from simfl.common.model_work import ModelWork
from simfl.learning.work import Operations, count_work


@dataclass
class Passes:
    """How much of a form's module there was: rows and calls that were trained on, or looked at."""

    trained: float = 0.0
    steps: float = 0.0
    looked: float = 0.0
    looks: float = 0.0


@dataclass
class Call:
    """What was seen: passes by form; operations by kind, forward and backward, None: not counted.

    `frozen` says that some of the weights were not trained.
    """

    passes: dict[str, Passes] = field(default_factory=dict)
    operations: Counter[str] | None = None
    frozen: bool = False


class CallCounter:
    """Remembers what a row of each form costs; None: that cannot be said."""

    def __init__(self) -> None:
        self.work: dict[str, ModelWork | None] = {}

    @contextmanager
    def watching(self, *, operations: bool = False) -> Iterator[Call]:
        """What is seen until the end of the block; with `operations`, each of those is counted."""
        call, depth, counting = Call(), 0, False

        def enter(module: nn.Module, given: Any) -> None:
            nonlocal depth
            depth += not counting

        def leave(module: nn.Module, given: Any, *others: Any) -> None:
            nonlocal depth, counting
            if counting:
                return
            depth -= 1
            named, made = others if len(others) == 2 else ({}, None)  # what failed made nothing
            if depth == 0 and made is not None and next(module.parameters(), None) is not None:
                counting = True
                try:
                    self._seen(call, module, given, named, made)
                finally:
                    counting = False

        def multiplied(name: str, flops: int, given: tuple[Any, ...], made: Any) -> None:
            if not counting and call.operations is not None:
                call.operations[_kind(name, given)] += flops

        with ExitStack() as stack:
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
        wanted = [one.requires_grad for one in module.parameters()]
        trains = torch.is_grad_enabled() and _needs_gradient(made)
        call.frozen |= trains and not all(wanted)
        form = _form(module, tensors)
        if form not in self.work:
            self.work[form] = None if named else _row_work(module, given, rows)
        passes = call.passes.setdefault(form, Passes())
        if trains:
            passes.trained += rows
            passes.steps += 1
        else:
            passes.looked += rows
            passes.looks += 1


def _form(module: nn.Module, tensors: list[Tensor]) -> str:
    """The same for all modules of the same class and shapes that are given the same shapes."""
    weights = [tuple(one.shape) for one in module.parameters()]
    inputs = [tuple(one.shape[1:]) for one in tensors]
    return f"{type(module).__qualname__}{weights}{inputs}"


def _row_work(module: nn.Module, given: tuple[Any, ...], rows: int) -> ModelWork | None:
    """The work of one row, of a copy: what is trained goes on as if nobody had looked."""
    if not all(isinstance(one, Tensor) for one in given):
        return None
    example = [one.detach()[:1] if one.dim() and len(one) == rows else one for one in given]
    with torch.random.fork_rng(devices=[]):
        try:
            return count_work(copy.deepcopy(module), *example)
        except (RuntimeError, TypeError, ValueError, NotImplementedError):
            return None


def _needs_gradient(made: Any) -> bool:
    if isinstance(made, Tensor):
        return made.requires_grad
    if isinstance(made, dict):
        return any(map(_needs_gradient, made.values()))
    if isinstance(made, list | tuple):
        return any(map(_needs_gradient, made))
    return False


def _kind(name: str, given: tuple[Any, ...]) -> str:
    """The kind of an operation that multiplies, as in `ModelWork`."""
    if not name.startswith("conv"):
        return "dense"
    backward = name.startswith("convolution_backward")
    groups, channels = (given[9], given[1]) if backward else (given[8], given[0])
    return "depthwise" if 1 < groups == channels.shape[1] else "convolution"
