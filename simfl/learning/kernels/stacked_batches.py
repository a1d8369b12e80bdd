"""Mini-batches of jobs that are trained together, padded to equal numbers of rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from simfl.learning.batches import padded_rows, step_seed
from simfl.learning.datasets.base import Examples
from simfl.learning.kernels.streams import Streams
from simfl.learning.network import Network, generator_state, seeded
from simfl.learning.sequential import augmented
from simfl.learning.task import Task
from simfl.learning.trainer import Augmentation

NUMPY_TYPES = {torch.float32: np.float32, torch.float64: np.float64}

VALUES_AHEAD = 1 << 18
"""Inputs of several steps are gathered at once if they have at most this many values."""


class StackedBatches:
    """The mini-batches of jobs at each step; `plans` are the jobs' own (`Task.order`).

    `steps` are each job's numbers of batches and must not increase from job to job, so the jobs
    that still train are always the first ones: `training` is their number by step, and `live` the
    number that is computed, which is all of them if stacks are computed `whole`. `rows` is the
    number of rows of every batch, including padding; `targets` are (steps, jobs, rows, ...).
    """

    def __init__(
        self,
        network: Network,
        tasks: Sequence[Task],
        plans: Sequence[tuple[list[Tensor], list[int]]],
        augmentation: Augmentation | None,
        *,
        whole: bool = False,
    ) -> None:
        self._network = network
        self.tasks = tasks
        self._augmentation = augmentation
        self.steps = [len(sizes) for _, sizes in plans]
        longest = max(self.steps)
        self.training: list[int] = []
        for job in reversed(range(len(tasks))):
            self.training += [job + 1] * (self.steps[job] - len(self.training))
        self.live = [len(tasks)] * longest if whole else self.training
        order = torch.cat([piece for pieces, _ in plans for piece in pieces])
        examples = [task.examples for task in tasks]
        lengths = [len(own) for own in examples]
        self.rows = rows = padded_rows(lengths[0], tasks[0].brief.recipe.local.batch_size)
        inputs, targets, firsts = _parts_of_one(examples) if whole else (None, None, None)
        self._shared = inputs is not None
        if inputs is None or targets is None or firsts is None:
            if order.shape[0] < sum(lengths):
                lengths = [sum(sizes) for _, sizes in plans]
                taken = zip(examples, torch.split(order, lengths), strict=True)
                examples = [own.take(places) for own, places in taken]
                order = torch.cat([torch.arange(count) for count in lengths])
            firsts = np.array([0, *accumulate(lengths[:-1])])
            inputs = torch.cat([own.inputs for own in examples])
            targets = torch.cat([own.targets for own in examples])
        # By step; indices into all jobs' data, of which only those used by the steps are stored if
        # that is less. Padding points at the job's own first row.
        ended = [0] * longest
        sizes = np.array([one + ended[len(one) :] for _, one in plans]).T  # (steps, jobs)
        present = np.arange(rows) < sizes[:, :, None]
        places = np.zeros(present.shape, np.int64)
        places.transpose(1, 0, 2)[present.transpose(1, 0, 2)] = order.numpy()
        places += firsts[:, None]
        by_step = torch.from_numpy(places)
        self._inputs, self._places = inputs, by_step.to(inputs.device)
        self._ahead: deque[Tensor] = deque()
        values = len(tasks) * rows * (inputs.numel() // inputs.shape[0])
        self._steps_ahead = max(1, VALUES_AHEAD // values)
        self._generators = [torch.Generator(network.device) for _ in tasks] if network.draws else []
        self.targets = targets.index_select(0, by_step.to(targets.device).flatten()).view(
            *by_step.shape, *targets.shape[1:]
        )
        self._sizes, self._present = sizes, present

    @cached_property
    def valid(self) -> Tensor:
        """1 for an example and 0 for padding: (steps, jobs, rows)."""
        return torch.from_numpy(self._present).to(self._network.device, self._network.dtype)

    def weights(self, rates: Sequence[float] | None = None) -> Tensor:
        """Each row's weight in the mean of its job's batch, times the job's rate; shaped like
        `valid`.
        """
        real = NUMPY_TYPES[self._network.dtype]
        shares = np.divide(1, np.maximum(self._sizes, 1), dtype=real)
        if rates is not None:
            shares *= np.array(rates, real)
        return torch.from_numpy(shares[:, :, None] * self._present).to(self._network.device)

    def inputs(self, step: int) -> Tensor:
        """The live jobs' inputs (jobs, rows, ...). Must be called once per step, in order."""
        inputs = self._taken(step)
        if self._augmentation is None:
            return inputs
        sizes = self._sizes[step].tolist()
        return torch.stack(
            [self._augmented(step, job, rows[: sizes[job]]) for job, rows in enumerate(inputs)]
        )

    @property
    def own_rows(self) -> int | None:
        """How many rows all jobs have; None if they share some, or if rows change each time."""
        return None if self._shared or self._augmentation is not None else len(self._inputs)

    def places(self, step: int) -> Tensor:
        """The row indices of the live jobs' inputs: (jobs, rows). Padding has a valid index."""
        return self._places[step, : self.live[step]]

    def streams(self, step: int) -> Streams | None:
        """The random generators of the live jobs at this step; call it after `inputs`."""
        if not self._generators:
            return None
        live = self.live[step]
        generators = self._generators[:live]
        if self._augmentation is None:  # else the stream continues after augmentation
            for task, generator in zip(self.tasks, generators, strict=False):
                generator.manual_seed(step_seed(task.seed, step))
        return Streams(generators, self._sizes[step, :live].tolist(), self.rows)

    def _taken(self, step: int) -> Tensor:
        """The live jobs' inputs before augmentation; small ones are gathered for several steps."""
        live = self.live[step]
        if not self._ahead:
            places = self._places[step : step + self._steps_ahead, :live]
            rows = self._network.on.taken(self._inputs, places.flatten())
            rows = rows.to(self._network.dtype)
            self._ahead.extend(rows.view(*places.shape, *rows.shape[1:]).unbind(0))
        inputs = self._ahead.popleft()
        return inputs if live == inputs.shape[0] else inputs[:live]

    def _augmented(self, step: int, job: int, rows: Tensor) -> Tensor:
        """One job's rows after augmentation, with the same draws as in the sequential trainer."""
        if not len(rows):  # a job that is done, in a stack that is computed as a whole
            return self._taken_shape(rows)
        with seeded(step_seed(self.tasks[job].seed, step), self._network.device):
            changed = augmented(rows, self._augmentation)
            if self._generators:
                self._generators[job].set_state(generator_state(self._network.device))
        missing = self.rows - len(rows)
        return torch.cat([changed, changed.new_zeros(missing, *changed.shape[1:])])

    def _taken_shape(self, rows: Tensor) -> Tensor:
        """Zeros in the shape of a step's rows."""
        return rows.new_zeros(self.rows, *rows.shape[1:])


def _parts_of_one(
    examples: Sequence[Examples],
) -> tuple[Tensor, Tensor, NDArray[Any]] | tuple[None, None, None]:
    """Inputs and targets that all examples are slices of, and where each begins; or None."""
    bases = [(own.inputs._base, own.targets._base) for own in examples]
    inputs, targets = bases[0]
    if inputs is None or targets is None:
        return None, None, None
    if any(one is not inputs or other is not targets for one, other in bases):
        return None, None, None
    row = inputs[0].numel()
    return inputs, targets, np.array([own.inputs.storage_offset() // row for own in examples])
