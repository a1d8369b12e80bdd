"""What an algorithm's loss sees of one training step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from simfl.learning.objective import Objective
from simfl.learning.parameters import Parameters


class Features(Protocol):
    """How a loss gets at hidden activations."""

    def __call__(
        self, parameters: Parameters, inputs: Tensor, layer: str | None = None
    ) -> tuple[Tensor, Tensor]:
        """The outputs, as of `Minibatch.forward`, and what enters `layer`: (jobs, rows, ...).

        `layer` is a module's name, None the last module with parameters (the model's head). Raises
        ValueError where the model has no such module, or calls it not once in a pass.
        """


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
    steps were made before this one; steps: (jobs,), how many each job makes in all.
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

    def mean_loss(self, outputs: Tensor) -> Tensor:
        """Mean loss of `outputs` over each job's valid rows: shape (jobs,)."""
        losses = self.objective.per_example(outputs, self.targets)
        return (losses * self.valid).sum(-1) / self.valid.sum(-1).clamp(min=1)


def plain_loss(parameters: Parameters, batch: Minibatch) -> Tensor:
    """The mean loss of the model over each job's valid rows: what is minimised by default.

    A trainer knows this very function, and may compute its gradient without autograd.
    """
    return batch.mean_loss(batch.forward(parameters, batch.inputs))
