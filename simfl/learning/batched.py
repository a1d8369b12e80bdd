"""The fast trainer: all jobs of a cohort at once, on tensors with a leading job axis.

It returns what `sequential.py` returns, and is batch-invariant: a job's result does not depend, to
the last bit, on the jobs that it was trained with, on their order or on the cohort's size (on one
numeric platform, one thread). Therefore everything here is either elementwise with one rounding
per operation (a fused multiply-add or a scalar tail could differ between positions in the stack),
or reduces over one job's own axes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from simfl.learning.batches import padded_rows, step_seed
from simfl.learning.job import Update
from simfl.learning.minibatch import Minibatch
from simfl.learning.network import Network, seeded
from simfl.learning.optimizer import StackedOptimizer
from simfl.learning.parameters import Parameters, per_job_view
from simfl.learning.sequential import augmented, brings_buffers, one_loss_per_job, train_one
from simfl.learning.stacked import StackedForward
from simfl.learning.task import Task
from simfl.learning.trainer import Augmentation, Loss, Trainer

VALUES_PER_COHORT = 1_000_000
LARGEST_COHORT = 64
"""On a CPU, stacked weights beyond some 4 MB leave the cache and more jobs cost speed."""


class BatchedTrainer(Trainer):
    """Trains a cohort as one stack; models without a batched form one by one."""

    def largest_cohort(self) -> int | None:
        """Jobs per stack: what fits a CPU's cache; as many as there are on an accelerator."""
        if self.network.device.type != "cpu":
            return None
        values = max(1, self.network.size_bytes // 4)
        return min(LARGEST_COHORT, max(2, VALUES_PER_COHORT // values))

    def train(self, tasks: Sequence[Task]) -> list[Update]:
        """The updates of `tasks`, in their order."""
        stacked = self.network.stacked if self.network.kernel_family == "stacked" else None
        if stacked is None:
            return [train_one(self.network, self.loss, self.augmentation, one) for one in tasks]
        lone = len(tasks) == 1 and stacked.needs_company
        company = [*tasks, *tasks] if lone else list(tasks)
        cohort = _Cohort(self.network, stacked, self.loss, self.augmentation, company)
        return cohort.updates()[: len(tasks)]


class _Cohort:
    """The stacked tensors of jobs while they are computed."""

    def __init__(
        self,
        network: Network,
        stacked: StackedForward,
        loss: Loss,
        augmentation: Augmentation | None,
        tasks: Sequence[Task],
    ) -> None:
        self.network = network
        self.stacked = stacked
        self.loss = loss
        self.augmentation = augmentation
        self.tasks = tasks
        self.recipe = tasks[0].brief.recipe
        self.trainable = tasks[0].trainable(network)
        self.start = _stack([task.start for task in tasks])
        self.own = _stack([task.brief.own for task in tasks])
        self.masks = _stack([task.masks() for task in tasks])
        self.parameters = {
            name: self.start[name].clone().requires_grad_(name in self.trainable)
            for name in network.parameter_names
        }
        self.buffers = {name: self.start[name] for name in network.buffer_names}
        self.data = _StackedBatches(network, tasks, augmentation)

    def updates(self) -> list[Update]:
        """Compute all jobs; one update per task."""
        measures = [task.measures(self.network) for task in self.tasks]
        if self.recipe.kind == "gradient":
            gradient = self._gradient()
            return [
                task.derived(_job(gradient, job), **measures[job])
                for job, task in enumerate(self.tasks)
            ]
        optimizer = self._train()
        tensors = {name: tensor.detach() for name, tensor in self.parameters.items()}
        tensors.update(self.buffers)
        return [
            task.trained(
                self.network,
                _job(tensors, job),
                _job(optimizer, job),
                self.data.steps[job],
                **measures[job],
            )
            for job, task in enumerate(self.tasks)
        ]

    def _gradient(self) -> Parameters:
        total = {name: torch.zeros_like(self.start[name]) for name in self.trainable}
        num_rows = torch.zeros(len(self.tasks), dtype=self.network.dtype)
        num_rows = num_rows.to(self.network.device)
        for step in range(max(self.data.steps)):
            gradients, valid = self._step(step)
            rows = valid.sum(1)
            num_rows += rows
            for name, gradient in gradients.items():
                weighted = gradient * per_job_view(rows, gradient)
                total[name] += torch.where(per_job_view(rows > 0, gradient), weighted, 0.0)
        return {
            name: gradient / per_job_view(num_rows, gradient) for name, gradient in total.items()
        }

    def _train(self) -> Parameters:
        """Take all steps; returns what the optimizer holds afterwards."""
        optimizer = StackedOptimizer(self.tasks, self.parameters, self.trainable)
        for step in range(max(self.data.steps)):
            before = self.buffers
            gradients, valid = self._step(step)
            live = None if step < min(self.data.steps) else valid.any(1)
            optimizer.step(step, gradients, live, self.masks)
            if live is not None:
                self.buffers = {
                    name: torch.where(per_job_view(live, tensor), tensor, before[name])
                    for name, tensor in self.buffers.items()
                }
        return optimizer.buffers

    def _step(self, step: int) -> tuple[Parameters, Tensor]:
        """The jobs' gradients at this step (0 where masked), and which rows were valid."""
        inputs, targets, valid = self.data.at(step)

        def forward(parameters: Parameters, rows: Tensor) -> Tensor:
            """See `sequential.py`. Row i of more models than jobs belongs to job i // share."""
            share = len(rows) // len(valid)
            buffers = {name: t.repeat_interleave(share, 0) for name, t in self.buffers.items()}
            outputs, moved = self.stacked(
                {**buffers, **parameters}, rows, valid.repeat_interleave(share, 0)
            )
            if share == 1 and not brings_buffers(self.network, parameters):
                self.buffers = {**self.buffers, **moved}
            return outputs

        batch = Minibatch(
            inputs=inputs,
            targets=targets,
            valid=valid,
            forward=forward,
            objective=self.network.objective,
            start=self.start,
            own=self.own,
            common=self.tasks[0].common,
        )
        losses = one_loss_per_job(self.loss(self.parameters, batch), len(self.tasks))
        leaves = [self.parameters[name] for name in self.trainable]
        found: Sequence[Tensor | None] = torch.autograd.grad(
            losses.sum(), leaves, allow_unused=True
        )
        gradients = {
            name: gradient
            for name, gradient in zip(self.trainable, found, strict=True)
            if gradient is not None
        }
        for name, mask in self.masks.items():
            if name in gradients:
                gradients[name] = torch.where(mask, gradients[name], 0.0)
        return gradients, valid


class _StackedBatches:
    """The jobs' mini-batches, padded to equal rows.

    `steps` counts each job's batches. A job whose batches are used up goes on with no valid row.
    """

    def __init__(
        self, network: Network, tasks: Sequence[Task], augmentation: Augmentation | None
    ) -> None:
        self.network = network
        self.tasks = tasks
        self.augmentation = augmentation
        self.rows = padded_rows(len(tasks[0].examples), tasks[0].brief.recipe.local.batch_size)
        plans = [task.batches(network) for task in tasks]
        self.steps = [len(plan) for plan in plans]
        self.inputs = torch.cat([task.examples.inputs for task in tasks])
        self.targets = torch.cat([task.examples.targets for task in tasks])
        # (steps, jobs) batch sizes and (steps, jobs, rows) places in the concatenated data;
        # padding points at the job's own first row.
        sizes = torch.zeros(max(self.steps), len(tasks), dtype=torch.int64)
        places = torch.zeros(max(self.steps), len(tasks), self.rows, dtype=torch.int64)
        offset = 0
        for job, plan in enumerate(plans):
            padded = pad_sequence(plan, batch_first=True)
            sizes[: len(plan), job] = torch.tensor([len(batch) for batch in plan])
            places[: len(plan), job, : padded.shape[1]] = padded
            places[:, job] += offset
            offset += len(tasks[job].examples)
        self.sizes = sizes.to(network.device)
        self.places = places.to(network.device)
        self.positions = torch.arange(self.rows, device=network.device)

    def at(self, step: int) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs (jobs, rows, ...), targets (jobs, rows, ...) and valid (jobs, rows)."""
        places = self.places[step]
        valid = (self.positions < self.sizes[step].unsqueeze(1)).to(self.network.dtype)
        targets = self.targets.index_select(0, places.flatten()).view(
            *places.shape, *self.targets.shape[1:]
        )
        inputs = self.inputs.index_select(0, places.flatten()).view(
            *places.shape, *self.inputs.shape[1:]
        )
        if self.augmentation is not None:
            inputs = torch.stack(
                [
                    self._augmented(step, job, rows, int(size))
                    for job, (rows, size) in enumerate(zip(inputs, self.sizes[step], strict=True))
                ]
            )
        return inputs, targets, valid

    def _augmented(self, step: int, job: int, rows: Tensor, size: int) -> Tensor:
        """One job's rows after augmentation, drawn as the sequential trainer draws it."""
        if step >= self.steps[job]:
            return torch.zeros_like(rows)
        with seeded(step_seed(self.tasks[job].seed, step), self.network.device):
            changed = augmented(rows[:size], self.augmentation)
        return torch.cat([changed, changed.new_zeros(self.rows - size, *changed.shape[1:])])


def _stack(members: Sequence[Parameters]) -> Parameters:
    return {name: torch.stack([member[name] for member in members]) for name in members[0]}


def _job(stacked: Parameters, job: int) -> Parameters:
    """One job's slice, as tensors of its own: a view would keep the whole stack alive."""
    return {name: tensor[job].clone() for name, tensor in stacked.items()}
