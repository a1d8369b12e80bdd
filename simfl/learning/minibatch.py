"""The view of one training step for an algorithm's loss."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from simfl.learning.kernels.mean_loss import mean_cross_entropy
from simfl.learning.objective import Objective
from simfl.learning.parameters import Parameters

MATRICES = 3
"""Axes of a stack of matrices."""


class Features(Protocol):
    """How a loss gets at hidden activations."""

    def __call__(
        self, parameters: Parameters, inputs: Tensor, layer: str | None = None
    ) -> tuple[Tensor, Tensor]:
        """The outputs, as of `Minibatch.forward`, and what enters `layer`: (jobs, rows, ...).

        `layer` is a module's name, None the last module with parameters (the model's head). Raises
        ValueError where the model has no such module, or calls it not once in a pass.
        """


class Descend(Protocol):
    """A faster form of `Minibatch.descended`, for all parameters of a model."""

    def __call__(self, model: Parameters, steps: int, rate: float, pull: float) -> Parameters:
        """The model's parameters afterwards."""


@dataclass(frozen=True)
class Minibatch:
    """One step's data and context for the jobs trained together.

    inputs: (jobs, rows, ...); targets: (jobs, rows) class indices or (jobs, rows, outputs) values;
    valid: (jobs, rows), 1 for an example and 0 for padding; forward(parameters, inputs): the
    model's outputs (jobs, rows, outputs); each(models, inputs): those of several models, one after
    the other, for which the layers that they share with the first one, from the inputs on and
    tensor for tensor, are run once; features(parameters, inputs, layer): outputs with what enters a
    layer (`Features`); start: the weights the jobs started from; own: the briefs' own
    tensors, stacked; common: the state's shared tensors (`Algorithm.common`); step: how many local
    steps were made before this one; steps: (jobs,), how many each job makes in all; descend: how a
    trainer has it computed what `descended` gives, where it knows a faster way.
    """

    inputs: Tensor
    targets: Tensor
    valid: Tensor
    forward: Callable[[Parameters, Tensor], Tensor]
    each: Callable[[Iterable[Parameters], Tensor], Iterator[Tensor]]
    features: Features
    objective: Objective
    start: Parameters
    own: Parameters
    common: Any
    step: int
    steps: Tensor
    descend: Descend | None = None

    def descended(
        self, model: Parameters, names: Collection[str], *, steps: int, rate: float, pull: float
    ) -> Parameters:
        """Where plain gradient descent takes these of a stacked model's parameters on the batch.

        So many steps of size `rate` down the mean loss plus pull / 2 times their squared distance
        to where they begin. They have no gradient.
        """
        held = {name: one.detach() for name, one in model.items()}
        if self.descend is not None and held.keys() == set(names):
            return self.descend(held, steps, rate, pull)
        share, moved = rate * pull, {name: held[name] for name in names}
        shift = {name: share * one for name, one in moved.items()}
        for _ in range(steps):
            own = {name: one.detach().requires_grad_() for name, one in moved.items()}
            loss = self.mean_loss(self.forward({**held, **own}, self.inputs))
            slopes = torch.autograd.grad(loss.sum(), list(own.values()))
            moved = {
                name: (1 - share) * one - rate * slope + shift[name]
                for (name, one), slope in zip(moved.items(), slopes, strict=True)
            }
        return moved

    def mean_loss(self, outputs: Tensor) -> Tensor:
        """Mean loss of `outputs` over each job's valid rows: shape (jobs,)."""
        if self.objective.task == "classification" and outputs.dim() == MATRICES:
            return mean_cross_entropy(outputs, self.targets, self.shares)
        return (self.objective.per_example(outputs, self.targets) * self.shares).sum(-1)

    @cached_property
    def shares(self) -> Tensor:
        """What each row counts in its job's mean: (jobs, rows)."""
        return self.valid / self.valid.sum(-1, keepdim=True).clamp(min=1)


def plain_loss(parameters: Parameters, batch: Minibatch) -> Tensor:
    """The mean loss of the model over each job's valid rows: what is minimised by default.

    A trainer knows this very function, and may compute its gradient without autograd.
    """
    return batch.mean_loss(batch.forward(parameters, batch.inputs))
