"""The mini-batches of jobs that are trained together, padded to equal rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from simfl.learning.batches import padded_rows, step_seed
from simfl.learning.kernels.streams import Streams
from simfl.learning.network import Network, seeded
from simfl.learning.sequential import augmented
from simfl.learning.task import Task
from simfl.learning.trainer import Augmentation

VALUES_AHEAD = 1 << 18
"""Values up to which the inputs of several steps are taken at once."""


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
        lengths = np.array([own.inputs.shape[0] for own in examples])
        if sum(order.shape[0] for order in orders) < lengths.sum():
            examples = [own.take(order) for own, order in zip(examples, orders, strict=True)]
            lengths = np.array([order.shape[0] for order in orders])
            orders = [torch.arange(order.shape[0]) for order in orders]
        rows = padded_rows(
            tasks[0].examples.inputs.shape[0], tasks[0].brief.recipe.local.batch_size
        )
        sizes = np.array([one + [0] * (longest - len(one)) for _, one in plans])
        present = np.arange(rows) < sizes[:, :, None]
        # Places in the concatenated data, of which only what the steps take is held where that is
        # less; padding points at the job's own first row.
        places = np.zeros(present.shape, np.int64)
        places[present] = torch.cat(orders).numpy()
        places += (lengths.cumsum() - lengths)[:, None, None]
        self._places = _by_step(places).to(network.device)
        self._inputs = torch.cat([own.inputs for own in examples])
        self._ahead: deque[Tensor] = deque()
        self._generators = [torch.Generator(network.device) for _ in tasks] if network.draws else []
        targets = torch.cat([own.targets for own in examples])
        self.targets = targets.index_select(0, self._places.flatten()).view(
            *self._places.shape, *targets.shape[1:]
        )
        self.valid = _by_step(present).to(network.device, network.dtype)

    def inputs(self, step: int) -> Tensor:
        """The live jobs' inputs (jobs, rows, ...). Steps are asked for in their order, once."""
        inputs = self._taken(step)
        if self._augmentation is None:
            return inputs
        sizes = self.valid[step].sum(1).int().tolist()
        return torch.stack(
            [self._augmented(step, job, rows[: sizes[job]]) for job, rows in enumerate(inputs)]
        )

    def streams(self, step: int) -> Streams | None:
        """What the live jobs' modules draw from at this step, after their `inputs` were taken."""
        if not self._generators:
            return None
        live = self.live[step]
        generators = self._generators[:live]
        if self._augmentation is None:  # else the stream goes on where augmentation left it
            for task, generator in zip(self.tasks, generators, strict=False):
                generator.manual_seed(step_seed(task.seed, step))
        counts = self.valid[step, :live].sum(1).int().tolist()
        return Streams(generators, counts, self.valid.shape[2])

    def _taken(self, step: int) -> Tensor:
        """The live jobs' inputs as they are in the data; small ones are taken for steps ahead."""
        live = self.live[step]
        if not self._ahead:
            steps = max(1, VALUES_AHEAD // (self._places[0].numel() * self._inputs[0].numel()))
            places = self._places[step : step + steps, :live]
            rows = self._inputs.index_select(0, places.flatten()).to(self._network.dtype)
            self._ahead.extend(rows.view(*places.shape, *rows.shape[1:]).unbind(0))
        inputs = self._ahead.popleft()
        return inputs if live == inputs.shape[0] else inputs[:live]

    def _augmented(self, step: int, job: int, rows: Tensor) -> Tensor:
        """One job's rows after augmentation, drawn as the sequential trainer draws it."""
        with seeded(step_seed(self.tasks[job].seed, step), self._network.device):
            changed = augmented(rows, self._augmentation)
            if self._generators:
                self._generators[job].set_state(torch.default_generator.get_state())
        missing = self._places.shape[2] - len(rows)
        return torch.cat([changed, changed.new_zeros(missing, *changed.shape[1:])])


def _by_step(by_job: NDArray[Any]) -> Tensor:
    """(jobs, steps, rows) as (steps, jobs, rows)."""
    return torch.from_numpy(np.ascontiguousarray(by_job.transpose(1, 0, 2)))
