"""SGD and Adam as in `torch.optim`: for one model, and for stacked tensors of many."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from simfl.learning.parameters import Parameters, per_job_view
from simfl.learning.task import Task

OPTIMIZER_BUFFERS = {"sgd": ("momentum_buffer",), "adam": ("exp_avg", "exp_avg_sq")}
"""The state of each optimizer per parameter, with torch.optim's names."""

ADAM_BETAS = (0.9, 0.999)
ADAM_EPSILON = 1e-8
"""torch.optim.Adam's defaults."""


class LoopOptimizer:
    """SGD and Adam on the tensors of one job, in place; bit-identical to `torch.optim`.

    `leaves` are the job's trainable parameters, by name. `buffers` is the optimizer's state, by
    "<buffer>/<parameter>"; a parameter that never had a gradient has none.
    """

    def __init__(self, task: Task, leaves: Parameters) -> None:
        self.local = local = task.brief.recipe.local
        self.leaves = leaves
        self.steps = task.steps_kept
        bare = local.optimizer == "sgd" and not local.momentum
        kept = () if bare or not self.steps else OPTIMIZER_BUFFERS[local.optimizer]
        self.buffers = {
            f"{buffer}/{name}": task.kept(buffer, name).clone()
            for name in leaves
            for buffer in kept
        }

    def step(self, gradients: Sequence[Tensor | None]) -> None:
        """One step; `gradients` are in the order of the leaves, None for a leaf without one."""
        self.steps += 1
        local = self.local
        with torch.no_grad():
            for (name, leaf), found in zip(self.leaves.items(), gradients, strict=True):
                if found is None:
                    continue
                decay = local.weight_decay
                gradient = found.add(leaf, alpha=decay) if decay else found
                if local.optimizer == "adam":
                    self._adam(name, leaf, gradient)
                else:
                    change = self._with_momentum(name, gradient) if local.momentum else gradient
                    leaf.add_(change, alpha=-local.learning_rate)

    def _with_momentum(self, name: str, gradient: Tensor) -> Tensor:
        key = f"momentum_buffer/{name}"
        if key in self.buffers:
            return self.buffers[key].mul_(self.local.momentum).add_(gradient)
        self.buffers[key] = gradient.clone()
        return self.buffers[key]

    def _adam(self, name: str, leaf: Tensor, gradient: Tensor) -> None:
        first, second = ADAM_BETAS
        keys = [f"{buffer}/{name}" for buffer in OPTIMIZER_BUFFERS["adam"]]
        if keys[0] not in self.buffers:
            self.buffers.update((key, torch.zeros_like(leaf)) for key in keys)
        mean, variance = (self.buffers[key] for key in keys)
        mean.lerp_(gradient, 1 - first)
        variance.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        root = variance.sqrt().div_((1 - second**self.steps) ** 0.5).add_(ADAM_EPSILON)
        leaf.addcdiv_(mean, root, value=-self.local.learning_rate / (1 - first**self.steps))


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
        # Reused at every step: allocating memory of this size costs more than the arithmetic.
        self._changes = {name: torch.empty_like(parameters[name].detach()) for name in trainable}
        self._adam_rates = self._adam_scales = self.rates

    def step(self, number: int, live: int, gradients: Parameters, masks: Parameters) -> None:
        """The first `live` jobs take step `number` (from 0), in place."""
        if self.local.optimizer == "adam":
            # Python computes the powers per job; a vector kernel's result could depend on the
            # position.
            counts = [before + number + 1 for before in self.steps_before]
            first, second = ADAM_BETAS
            corrections = [1 - first**count for count in counts]
            self._adam_rates = self.rates / self.rates.new_tensor(corrections)
            roots = [(1 - second**count) ** 0.5 for count in counts]
            self._adam_scales = self.rates.new_tensor(roots)
        with torch.no_grad():
            for name, gradient in gradients.items():
                parameter = self.parameters[name][:live]
                decay = self.local.weight_decay
                slope = gradient + decay * parameter if decay else gradient
                change = self._change(name, slope, live)
                if name in masks:
                    change.masked_fill_(~masks[name][:live], 0.0)
                parameter -= change

    def _change(self, name: str, gradient: Tensor, live: int) -> Tensor:
        """The change to subtract from the parameter: learning rate times direction."""
        out = self._changes[name][:live]
        if self.local.optimizer == "adam":
            first, second = ADAM_BETAS
            mean = self._moved(f"exp_avg/{name}", first, (1 - first) * gradient)
            squared = (1 - second) * (gradient * gradient)
            variance = self._moved(f"exp_avg_sq/{name}", second, squared)
            root = variance.sqrt().div_(per_job_view(self._adam_scales[:live], variance))
            torch.div(mean, root.add_(ADAM_EPSILON), out=out)
            return out.mul_(per_job_view(self._adam_rates[:live], mean))
        if self.local.momentum:
            gradient = self._moved(f"momentum_buffer/{name}", self.local.momentum, gradient)
        return torch.mul(per_job_view(self.rates[:live], gradient), gradient, out=out)

    def _moved(self, key: str, share: float, addend: Tensor) -> Tensor:
        """Updates a buffer to `share * buffer + addend`, and returns it."""
        return self.buffers[key][: len(addend)].mul_(share).add_(addend)
