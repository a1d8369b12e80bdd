"""What an algorithm's loss sees of one training step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from simfl.learning.objective import Objective
from simfl.learning.parameters import Parameters


@dataclass(frozen=True)
class Minibatch:
    """One step's data and context for the jobs trained together.

    inputs: (jobs, rows, ...); targets: (jobs, rows) class indices or (jobs, rows, outputs) values;
    valid: (jobs, rows), 1 for an example and 0 for padding; forward(parameters, inputs): the
    model's outputs (jobs, rows, outputs); start: the weights the jobs started from; own: the
    briefs' own tensors, stacked; common: the state's shared tensors (`Algorithm.common`).
    """

    inputs: Tensor
    targets: Tensor
    valid: Tensor
    forward: Callable[[Parameters, Tensor], Tensor]
    objective: Objective
    start: Parameters
    own: Parameters
    common: Any = None

    def mean_loss(self, outputs: Tensor) -> Tensor:
        """Mean loss of `outputs` over each job's valid rows: shape (jobs,)."""
        losses = self.objective.per_example(outputs, self.targets)
        return (losses * self.valid).sum(-1) / self.valid.sum(-1).clamp(min=1)


def plain_loss(parameters: Parameters, batch: Minibatch) -> Tensor:
    """The mean loss of the model over each job's valid rows: what is minimised by default.

    A trainer knows this very function, and may compute its gradient without autograd.
    """
    return batch.mean_loss(batch.forward(parameters, batch.inputs))
