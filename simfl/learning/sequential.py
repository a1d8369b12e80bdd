"""The plain reference: one client after the other, autograd and `torch.optim`.

Read this file to know what a job computes. The batched trainer must give the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor

from simfl.learning.batches import step_seed
from simfl.learning.job import Update
from simfl.learning.minibatch import Minibatch
from simfl.learning.network import Network, seeded
from simfl.learning.optimizer import OPTIMIZER_BUFFERS, new_optimizer
from simfl.learning.parameters import Parameters
from simfl.learning.task import Task
from simfl.learning.trainer import Augmentation, Loss, Trainer


class SequentialTrainer(Trainer):
    """Trains the jobs of a cohort one by one."""

    def train(self, tasks: Sequence[Task]) -> list[Update]:
        """The updates of `tasks`, in their order."""
        return [train_one(self.network, self.loss, self.augmentation, task) for task in tasks]


def train_one(
    network: Network, loss: Loss, augmentation: Augmentation | None, task: Task
) -> Update:
    """One client's job. Weights that diverge (NaN, infinity) are returned as they are."""
    measures = task.measures(network)
    run = _LocalRun(network, loss, augmentation, task)
    batches = task.batches(network)
    if task.brief.recipe.kind == "gradient":
        return task.derived(run.gradient(batches), **measures)
    optimizer = run.train(batches)
    return task.trained(network, run.tensors(), optimizer, len(batches), **measures)


class _LocalRun:
    """One job's tensors while it is computed; parameters carry a job axis of length 1."""

    def __init__(
        self, network: Network, loss: Loss, augmentation: Augmentation | None, task: Task
    ) -> None:
        self.network = network
        self.loss = loss
        self.augmentation = augmentation
        self.task = task
        self.trainable = task.trainable(network)
        self.parameters = {
            name: task.start[name][None].clone().requires_grad_(name in self.trainable)
            for name in task.parameter_names(network)
        }
        self.buffers = {name: task.start[name] for name in network.buffer_names}
        self.start = {name: tensor[None] for name, tensor in task.start.items()}
        self.own = {name: tensor[None] for name, tensor in task.brief.own.items()}
        self.masks = {name: mask[None] for name, mask in task.masks().items()}
        self.correction = {name: one[None] for name, one in task.brief.correction.items()}
        self.draws = augmentation is not None or not network.stackable

    def train(self, batches: Sequence[Tensor]) -> Parameters:
        """Take one optimizer step per batch; returns what the optimizer holds afterwards."""
        optimizer = self._optimizer()
        for step, rows in enumerate(batches):
            optimizer.zero_grad()
            self._loss(step, rows).backward()  # type: ignore[no-untyped-call]  # torch's gap
            for name, correction in self.correction.items():
                gradient = self.parameters[name].grad
                corrected = correction.clone() if gradient is None else gradient + correction
                self.parameters[name].grad = corrected
            for name, mask in self.masks.items():
                if (gradient := self.parameters[name].grad) is not None:
                    gradient.masked_fill_(~mask, 0.0)
            optimizer.step()
            with torch.no_grad():  # weight decay and kept momentum move masked entries too
                for name, mask in self.masks.items():
                    self.parameters[name].copy_(
                        torch.where(mask, self.parameters[name], self.start[name])
                    )
        return {
            f"{buffer}/{name}": state[buffer][0]
            for name in self.trainable
            for buffer, state in self._held(optimizer, name)
        }

    def gradient(self, batches: Sequence[Tensor]) -> Parameters:
        """The mean gradient over the batches' rows, at the start weights."""
        leaves = [self.parameters[name] for name in self.trainable]
        total = {name: torch.zeros_like(self.start[name]) for name in self.trainable}
        num_rows = sum(len(rows) for rows in batches)
        for step, rows in enumerate(batches):
            loss = self._loss(step, rows) * len(rows)
            for name, gradient in zip(
                self.trainable, torch.autograd.grad(loss, leaves, allow_unused=True), strict=True
            ):
                if gradient is not None:
                    total[name] += gradient
        for name in total.keys() & self.masks.keys():
            total[name].masked_fill_(~self.masks[name], 0.0)
        return {name: gradient[0] / num_rows for name, gradient in total.items()}

    def tensors(self) -> Parameters:
        """The model as it is now, without a job axis."""
        parameters = {name: tensor.detach()[0] for name, tensor in self.parameters.items()}
        return {**parameters, **self.buffers}

    def _loss(self, step: int, rows: Tensor) -> Tensor:
        seed = step_seed(self.task.seed, step)
        with seeded(seed, self.network.device) if self.draws else nullcontext():
            examples = self.task.examples.take(rows)
            inputs = augmented(examples.inputs.to(self.network.dtype), self.augmentation)
            batch = Minibatch(
                inputs=inputs[None],
                targets=examples.targets[None],
                valid=torch.ones(1, len(rows), dtype=inputs.dtype, device=inputs.device),
                forward=self._forward,
                features=self._features,
                objective=self.network.objective,
                start=self.start,
                own=self.own,
                common=self.task.common,
            )
            return one_loss_per_job(self.loss(self.parameters, batch), 1).sum()

    def _forward(self, parameters: Parameters, inputs: Tensor) -> Tensor:
        """The outputs (models, rows, outputs) of stacked models for inputs (models, rows, ...).

        Running statistics are the job's, and move with it, in a pass of the job's own model;
        parameters that bring buffers use those, and leave the job's alone.
        """
        passes = []
        for index, rows in enumerate(inputs.unbind(0)):
            tensors = {
                name: parameters[name][index]
                for name in self.network.tensor_names
                if name in parameters
            }
            passes.append(self.network.call({**self.buffers, **tensors}, rows, training=True))
        if len(passes) == 1 and not brings_buffers(self.network, parameters):
            self.buffers = passes[0][1]
        return torch.stack([outputs for outputs, _ in passes])

    def _features(
        self, parameters: Parameters, inputs: Tensor, layer: str | None = None
    ) -> tuple[Tensor, Tensor]:
        """The outputs, and what enters a layer; see `Features`."""
        with self.network.listening(layer) as heard:
            outputs = self._forward(parameters, inputs)
        if len(heard) != len(inputs):
            name = self.network.feature_layer(layer)
            raise ValueError(f"the model calls {name!r} not once in a pass")
        return outputs, torch.stack(heard)

    def _optimizer(self) -> torch.optim.Optimizer:
        local = self.task.brief.recipe.local
        optimizer = new_optimizer(local, [self.parameters[name] for name in self.trainable])
        if local.keep_optimizer and self.task.memory.optimizer_steps:
            for name in self.trainable:
                state = optimizer.state[self.parameters[name]]
                for buffer in OPTIMIZER_BUFFERS[local.optimizer]:
                    state[buffer] = self.task.kept(buffer, name)[None].clone()
                if local.optimizer == "adam":
                    state["step"] = torch.tensor(float(self.task.steps_kept))
        return optimizer

    def _held(
        self, optimizer: torch.optim.Optimizer, name: str
    ) -> list[tuple[str, dict[str, Tensor]]]:
        """The optimizer's buffers of one parameter that exist: plain SGD has none."""
        state = optimizer.state.get(self.parameters[name], {})
        buffers = OPTIMIZER_BUFFERS[self.task.brief.recipe.local.optimizer]
        return [(buffer, state) for buffer in buffers if state.get(buffer) is not None]


def augmented(inputs: Tensor, augmentation: Augmentation | None) -> Tensor:
    """Each example changed on its own: inputs (rows, ...) in and out."""
    if augmentation is None:
        return inputs
    return augmentation(inputs)


def brings_buffers(network: Network, parameters: Parameters) -> bool:
    """Whether `parameters` carry their own running statistics."""
    return any(name in parameters for name in network.buffer_names)


def one_loss_per_job(losses: Tensor, jobs: int) -> Tensor:
    """`losses`, after checking what an algorithm's loss returned: raises ValueError."""
    if losses.shape != (jobs,):
        raise ValueError(
            f"loss: an algorithm's loss returns one value per job, shape ({jobs},); "
            f"found shape {tuple(losses.shape)}"
        )
    return losses
