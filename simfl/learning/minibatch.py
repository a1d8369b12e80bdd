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
"""The axes of a stack of matrices."""


class Features(Protocol):
    """Gives a loss access to hidden activations."""

    def __call__(
        self, parameters: Parameters, inputs: Tensor, layer: str | None = None
    ) -> tuple[Tensor, Tensor]:
        """The outputs of `Minibatch.forward`, and the input of `layer`: (jobs, rows, ...).

        `layer` is a module's name; None stands for the last module with parameters (the model's
        head). Raises ValueError if the model has no such module, or does not call it exactly once
        per pass.
        """


class Descend(Protocol):
    """A faster form of `Minibatch.descended`, for all parameters of a model."""

    def __call__(self, model: Parameters, steps: int, rate: float, pull: float) -> Parameters:
        """The model's parameters after the steps."""


@dataclass(frozen=True)
class Minibatch:
    """One step's data and context for the jobs trained together.

    inputs: (jobs, rows, ...); targets: (jobs, rows) class indices or (jobs, rows, outputs) values;
    valid: (jobs, rows), 1 for an example and 0 for padding; forward(parameters, inputs): the
    model's outputs (jobs, rows, outputs); each(models, inputs): the outputs of several models, one
    after another, where leading layers with the very same tensors as in the first model are run
    once; features(parameters, inputs, layer): outputs and the input of a layer (`Features`); start:
    the weights the jobs started from; own: the briefs' own tensors, stacked; common: the state's
    shared tensors (`Algorithm.common`); step: the number of local steps before this one; steps:
    (jobs,), the total number of steps of each job; descend: the trainer's faster way to compute
    `descended`, if it has one.
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
        """These of a stacked model's parameters after plain gradient descent on the batch.

        `steps` steps of size `rate` on the mean loss plus pull / 2 times the squared distance to
        the start. The results have no gradient.
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
        """The weight of each row in its job's mean: (jobs, rows)."""
        return self.valid / self.valid.sum(-1, keepdim=True).clamp(min=1)


def plain_loss(parameters: Parameters, batch: Minibatch) -> Tensor:
    """The mean loss of the model over each job's valid rows: the default objective.

    Trainers recognise this function, and may compute its gradient without autograd.
    """
    return batch.mean_loss(batch.forward(parameters, batch.inputs))
