"""The plain reference trainer: one client after another, with autograd.

This file defines what a job computes. The batched trainer must give the same results, and uses this
trainer for models without a batched form: since the weights are loaded into one module, it is as
fast as a training loop written for that model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor

from simfl.common.contract import at_work
from simfl.learning.batches import step_seed
from simfl.learning.datasets.base import Examples
from simfl.learning.job import Update
from simfl.learning.minibatch import Minibatch, plain_loss
from simfl.learning.network import Network, seed_generator, seeded
from simfl.learning.optimizer import LoopOptimizer
from simfl.learning.parameters import Parameters
from simfl.learning.task import Task
from simfl.learning.trainer import Augmentation, Loss, Trainer

FEW_VALUES = 1 << 20
"""The most input values, over all steps, that are gathered in one piece."""


class SequentialTrainer(Trainer):
    """Trains the jobs of a cohort one by one."""

    def train(self, tasks: Sequence[Task]) -> list[Update]:
        """The updates of `tasks`, in their order."""
        return [train_one(self.network, self.loss, self.augmentation, task) for task in tasks]


def train_one(
    network: Network, loss: Loss, augmentation: Augmentation | None, task: Task
) -> Update:
    """The update of one client's job. Diverged weights (NaN, infinity) are returned as they are."""
    measures = task.measures(network)
    batches = task.batches(network)
    draws = augmentation is not None or network.draws
    with seeded(0, network.device) if draws else nullcontext():
        run = _LocalRun(network, loss, augmentation, task)
        if task.brief.recipe.kind == "gradient":
            return task.derived(run.gradient(batches), **measures)
        optimizer = run.train(batches)
        sent, tensors = task.sent(network), run.tensors()
        return task.trained(network, sent, tensors, optimizer, len(batches), **measures)


class _LocalRun:
    """One job during its computation, in the module that the network keeps for this purpose.

    An algorithm's loss gets tensors with a job axis of length 1.
    """

    def __init__(
        self, network: Network, loss: Loss, augmentation: Augmentation | None, task: Task
    ) -> None:
        self.network = network
        self.loss = loss
        self.augmentation = augmentation
        self.task = task
        self.module = network.loaded(task.start)
        self.trainable = task.trainable(network)
        self.parameters = {
            name: parameter.requires_grad_(name in self.trainable)
            for name, parameter in self.module.named_parameters()
        }
        self.parameters |= {
            name: task.start[name].clone().requires_grad_() for name in task.brief.recipe.beside
        }
        self.given: Parameters = {}
        self.masks = task.masks()
        self.correction = task.brief.correction
        self.pulled = task.pulled(network)
        self.draws = augmentation is not None or network.draws
        self.steps = torch.zeros(1, dtype=torch.int64)

    def train(self, batches: Sequence[Tensor]) -> Parameters:
        """Take one optimizer step per batch; returns the optimizer's state afterwards."""
        task = self.task
        leaves = {name: self.parameters[name] for name in self.trainable}
        optimizer = LoopOptimizer(task, leaves)
        self.steps = torch.tensor([len(batches)], device=self.network.device)
        for step, rows in enumerate(self._rows(batches)):
            found: Sequence[Tensor | None] = torch.autograd.grad(
                self._loss(step, rows), list(leaves.values()), allow_unused=True
            )
            gradients = dict(zip(leaves, found, strict=True))
            for name, correction in self.correction.items():
                gradient = gradients[name]
                gradients[name] = correction.clone() if gradient is None else gradient + correction
            for name, (mu, held) in self.pulled.items():
                moved = self.parameters[name].detach() - task.start[held]
                pull, gradient = mu * moved, gradients[name]
                gradients[name] = pull if gradient is None else gradient + pull
            for name, mask in self.masks.items():
                if (gradient := gradients.get(name)) is not None:
                    gradient.masked_fill_(~mask, 0.0)
            optimizer.step(list(gradients.values()))
            with torch.no_grad():  # weight decay and kept momentum change masked entries, too
                for name, mask in self.masks.items():
                    moved = self.parameters[name]
                    moved.copy_(torch.where(mask, moved, task.start[name]))
        return optimizer.buffers

    def gradient(self, batches: Sequence[Tensor]) -> Parameters:
        """The mean gradient over the batches' rows, at the start weights."""
        leaves = [self.parameters[name] for name in self.trainable]
        total = {name: torch.zeros_like(self.task.start[name]) for name in self.trainable}
        num_rows = sum(len(rows) for rows in batches)
        self.steps = torch.tensor([len(batches)], device=self.network.device)
        for step, rows in enumerate(self._rows(batches)):
            loss = self._loss(step, rows) * len(rows)
            for name, gradient in zip(
                self.trainable, torch.autograd.grad(loss, leaves, allow_unused=True), strict=True
            ):
                if gradient is not None:
                    total[name] += gradient
        for name in total.keys() & self.masks.keys():
            total[name].masked_fill_(~self.masks[name], 0.0)
        return {name: gradient / num_rows for name, gradient in total.items()}

    def tensors(self) -> Parameters:
        """A copy of the current model, and of the tensors trained beside it."""
        held = {**self.parameters, **dict(self.module.named_buffers())}
        names = (*self.task.parameter_names(self.network), *self.network.buffer_names)
        return {name: held[name].detach().clone() for name in names}

    def _rows(self, batches: Sequence[Tensor]) -> Iterator[Examples]:
        """The examples of each step; small data are gathered all at once."""
        examples, moved = self.task.examples, self.network.on.moved
        values = examples.inputs[0].numel() * sum(len(rows) for rows in batches)
        if values > FEW_VALUES:
            for rows in batches:
                some = examples.take(rows)
                yield Examples(moved(some.inputs), some.targets)
            return
        taken, sizes = examples.take(torch.cat(list(batches))), [len(rows) for rows in batches]
        taken = Examples(moved(taken.inputs), taken.targets)
        for inputs, targets in zip(
            torch.split(taken.inputs, sizes), torch.split(taken.targets, sizes), strict=True
        ):
            yield Examples(inputs, targets)

    def _loss(self, step: int, examples: Examples) -> Tensor:
        if self.draws:
            seed_generator(step_seed(self.task.seed, step), self.network.device)
        inputs = augmented(examples.inputs.to(self.network.dtype), self.augmentation)
        if self.loss is plain_loss:
            return self.network.objective.mean(self._outputs(inputs), examples.targets)
        # New views in every step: a view depends on the tensor's state when it was created.
        self.given = {name: tensor[None] for name, tensor in self.parameters.items()}
        batch = Minibatch(
            inputs=inputs[None],
            targets=examples.targets[None],
            valid=torch.ones(1, len(examples), dtype=inputs.dtype, device=inputs.device),
            forward=self._forward,
            each=self._each,
            features=self._features,
            objective=self.network.objective,
            start={name: tensor[None] for name, tensor in self.task.start.items()},
            own={name: tensor[None] for name, tensor in self.task.brief.own.items()},
            common=self.task.common,
            step=step,
            steps=self.steps,
        )
        return one_loss_per_job(self.loss(self.given, batch), 1).sum()

    def _forward(self, parameters: Parameters, inputs: Tensor) -> Tensor:
        """The outputs (models, rows, outputs) of stacked models for inputs (models, rows, ...).

        A pass of the job's own model updates the job's running statistics; parameters that come
        with buffers use those, and leave the job's unchanged.
        """
        network, buffers = self.network, dict(self.module.named_buffers())
        own = all(parameters[name] is self.given[name] for name in network.parameter_names)
        if own and not brings_buffers(network, parameters):
            return self._outputs(inputs[0])[None]
        passes = []
        for index, rows in enumerate(inputs.unbind(0)):
            tensors = {
                name: parameters[name][index] for name in network.tensor_names if name in parameters
            }
            passes.append(network.call({**buffers, **tensors}, rows, training=True))
        if len(passes) == 1 and not brings_buffers(self.network, parameters):
            for name, moved in passes[0][1].items():
                # Not recorded by autograd, as in BatchNorm itself: a loss may run the model twice.
                buffers[name].data.copy_(moved)
        return torch.stack([outputs for outputs, _ in passes])

    def _each(self, models: Iterable[Parameters], inputs: Tensor) -> Iterator[Tensor]:
        """The outputs of one stack of models after another."""
        return (self._forward(parameters, inputs) for parameters in models)

    def _features(
        self, parameters: Parameters, inputs: Tensor, layer: str | None = None
    ) -> tuple[Tensor, Tensor]:
        """The outputs, and the input of a layer; see `Features`."""
        with self.network.listening(layer) as heard:
            outputs = self._forward(parameters, inputs)
        if len(heard) != len(inputs):
            name = self.network.feature_layer(layer)
            raise ValueError(f"the model calls {name!r} not once in a pass")
        return outputs, torch.stack(heard)

    def _outputs(self, inputs: Tensor) -> Tensor:
        """Outputs (rows, outputs) of the job's own model for inputs (rows, ...)."""
        with self.network.casting(), at_work(self.module, "forward"):
            outputs = self.module(inputs)
        return self.network.one_tensor(outputs)


def augmented(inputs: Tensor, augmentation: Augmentation | None) -> Tensor:
    """Each example changed separately: inputs (rows, ...) in and out."""
    if augmentation is None:
        return inputs
    return augmentation(inputs)


def brings_buffers(network: Network, parameters: Parameters) -> bool:
    """Whether `parameters` include their own running statistics."""
    return any(name in parameters for name in network.buffer_names)


def one_loss_per_job(losses: Tensor, jobs: int) -> Tensor:
    """`losses`, after a check of what an algorithm's loss returned; raises ValueError."""
    if losses.shape != (jobs,):
        raise ValueError(
            f"loss: an algorithm's loss returns one value per job, shape ({jobs},); "
            f"found shape {tuple(losses.shape)}"
        )
    return losses
