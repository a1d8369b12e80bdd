"""SGD and Adam: torch's own for one model, and the same on the stacked tensors of many."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from simfl.learning.job import LocalTraining
from simfl.learning.parameters import Parameters, per_job_view
from simfl.learning.task import Task

OPTIMIZER_BUFFERS = {"sgd": ("momentum_buffer",), "adam": ("exp_avg", "exp_avg_sq")}
"""What each optimizer keeps per parameter, by torch.optim's names."""

ADAM_BETAS = (0.9, 0.999)
ADAM_EPSILON = 1e-8
"""torch.optim.Adam's defaults."""


def new_optimizer(local: LocalTraining, parameters: list[Tensor]) -> torch.optim.Optimizer:
    """The torch.optim optimizer of these settings."""
    if local.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=local.learning_rate, weight_decay=local.weight_decay)
    return torch.optim.SGD(
        parameters,
        lr=local.learning_rate,
        momentum=local.momentum,
        weight_decay=local.weight_decay,
    )


class StackedOptimizer:
    """SGD and Adam on stacked tensors, as `torch.optim` computes them for each job."""

    def __init__(
        self, tasks: Sequence[Task], parameters: Parameters, trainable: Sequence[str]
    ) -> None:
        local = tasks[0].brief.recipe.local
        self.local = local
        self.parameters = parameters
        some = next(iter(parameters.values()))
        self.rates = torch.tensor(
            [task.brief.recipe.local.learning_rate for task in tasks],
            dtype=some.dtype,
            device=some.device,
        )
        self.steps_before = [task.steps_kept for task in tasks]
        bare = local.optimizer == "sgd" and not local.momentum
        kept = () if bare else OPTIMIZER_BUFFERS[local.optimizer]
        self.buffers = {
            f"{buffer}/{name}": torch.stack([task.kept(buffer, name) for task in tasks])
            for name in trainable
            for buffer in kept
        }
        # Reused from step to step: fresh memory of this size costs more than the arithmetic.
        self._changes = {name: torch.empty_like(parameters[name].detach()) for name in trainable}

    def step(
        self, number: int, gradients: Parameters, live: Tensor | None, masks: Parameters
    ) -> None:
        """Take step `number` (from 0) in place. `live`: which jobs take it (None: all)."""
        with torch.no_grad():
            for name, gradient in gradients.items():
                parameter = self.parameters[name]
                decay = self.local.weight_decay
                slope = gradient + decay * parameter if decay else gradient
                change = self._change(number, name, slope, live)
                if live is not None:
                    change.masked_fill_(~per_job_view(live, change), 0.0)
                if name in masks:
                    change.masked_fill_(~masks[name], 0.0)
                parameter -= change

    def _change(self, number: int, name: str, gradient: Tensor, live: Tensor | None) -> Tensor:
        """What to take off the parameter: the learning rate times the optimizer's direction."""
        if self.local.optimizer == "adam":
            first, second = ADAM_BETAS
            mean = self._moved(f"exp_avg/{name}", first, (1 - first) * gradient, live)
            squared = (1 - second) * (gradient * gradient)
            variance = self._moved(f"exp_avg_sq/{name}", second, squared, live)
            # Powers are taken by Python per job: a vector kernel's could depend on the position.
            counts = [before + number + 1 for before in self.steps_before]
            rates = self.rates / self.rates.new_tensor([1 - first**count for count in counts])
            scale = self.rates.new_tensor([(1 - second**count) ** 0.5 for count in counts])
            root = variance.sqrt() / per_job_view(scale, variance) + ADAM_EPSILON
            change = torch.div(mean, root, out=self._changes[name])
            return change.mul_(per_job_view(rates, mean))
        if self.local.momentum:
            gradient = self._moved(f"momentum_buffer/{name}", self.local.momentum, gradient, live)
        return torch.mul(per_job_view(self.rates, gradient), gradient, out=self._changes[name])

    def _moved(self, key: str, share: float, addend: Tensor, live: Tensor | None) -> Tensor:
        """`share * buffer + addend`, kept for the jobs that take this step."""
        held = self.buffers[key]
        if live is None:
            return held.mul_(share).add_(addend)
        moved = share * held + addend
        return held.copy_(torch.where(per_job_view(live, moved), moved, held))
