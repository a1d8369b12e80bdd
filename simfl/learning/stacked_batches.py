"""The mini-batches of jobs that are trained together, padded to equal rows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from simfl.learning.batches import padded_rows, step_seed
from simfl.learning.network import Network, seeded
from simfl.learning.sequential import augmented
from simfl.learning.task import Task
from simfl.learning.trainer import Augmentation


class StackedBatches:
    """What jobs see at each step; `plans` are theirs (`Task.order`).

    `steps` counts each job's batches and must not increase from job to job, so that the jobs that
    still train are always the first ones: `live` says how many, by step. `targets` (steps, jobs,
    rows, ...) and `valid` (steps, jobs, rows), 1 for an example and 0 for padding.
    """

    def __init__(
        self,
        network: Network,
        tasks: Sequence[Task],
        plans: Sequence[tuple[Tensor, list[int]]],
        augmentation: Augmentation | None,
    ) -> None:
        self._network = network
        self.tasks = tasks
        self._augmentation = augmentation
        self.steps = [len(sizes) for _, sizes in plans]
        longest = max(self.steps)
        self.live = [sum(count > step for count in self.steps) for step in range(longest)]
        orders, examples = [order for order, _ in plans], [task.examples for task in tasks]
        if sum(map(len, orders)) < sum(map(len, examples)):
            examples = [own.take(order) for own, order in zip(examples, orders, strict=True)]
            orders = [torch.arange(len(order)) for order in orders]
        rows = padded_rows(len(tasks[0].examples), tasks[0].brief.recipe.local.batch_size)
        sizes = torch.tensor([one + [0] * (longest - len(one)) for _, one in plans])
        present = torch.arange(rows) < sizes.unsqueeze(2)
        lengths = torch.tensor([len(own) for own in examples])
        offsets = (lengths.cumsum(0) - lengths).view(-1, 1, 1)
        # Places in the concatenated data, of which only what the steps take is held where that is
        # less; padding points at the job's own first row.
        places = torch.zeros(present.shape, dtype=torch.int64)
        places.masked_scatter_(present, torch.cat(orders)).add_(offsets)
        self._places = places.transpose(0, 1).contiguous().to(network.device)
        self._inputs = torch.cat([own.inputs for own in examples])
        targets = torch.cat([own.targets for own in examples])
        self.targets = targets.index_select(0, self._places.flatten()).view(
            *self._places.shape, *targets.shape[1:]
        )
        self.valid = present.transpose(0, 1).to(network.device, network.dtype, copy=True)
        self.valid = self.valid.contiguous()

    def inputs(self, step: int) -> Tensor:
        """The live jobs' inputs (jobs, rows, ...)."""
        places = self._places[step, : self.live[step]]
        inputs = self._inputs.index_select(0, places.flatten()).view(
            *places.shape, *self._inputs.shape[1:]
        )
        inputs = inputs.to(self._network.dtype)
        if self._augmentation is None:
            return inputs
        sizes = self.valid[step].sum(1).int().tolist()
        return torch.stack(
            [self._augmented(step, job, rows[: sizes[job]]) for job, rows in enumerate(inputs)]
        )

    def _augmented(self, step: int, job: int, rows: Tensor) -> Tensor:
        """One job's rows after augmentation, drawn as the sequential trainer draws it."""
        with seeded(step_seed(self.tasks[job].seed, step), self._network.device):
            changed = augmented(rows, self._augmentation)
        missing = self._places.shape[2] - len(rows)
        return torch.cat([changed, changed.new_zeros(missing, *changed.shape[1:])])
