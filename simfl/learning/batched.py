"""The fast trainer: all jobs of a cohort at once, on tensors with a leading job axis.

It returns what `sequential.py` returns, and is batch-invariant: a job's result is bit-identical
whichever jobs it is trained with, in whichever order and cohort size (on one numeric platform, with
one thread). `cohort.py` explains how.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from simfl.common.notices import Notice
from simfl.learning.allocation import keep_freed_memory
from simfl.learning.autograd_cohort import AutogradCohort
from simfl.learning.cohort import Cohort, DenseCohort
from simfl.learning.job import Update
from simfl.learning.kernels.dense import DenseChain
from simfl.learning.kernels.stacked import StackedForward
from simfl.learning.kernels.stacked_batches import StackedBatches
from simfl.learning.minibatch import plain_loss
from simfl.learning.network import Network
from simfl.learning.padded_cohorts import PaddedCohorts, Remark, notices_of, shape_of
from simfl.learning.sequential import train_one
from simfl.learning.task import Task
from simfl.learning.trainer import Trainer

VALUES_PER_COHORT = 2_000_000
VALUES_BY_HAND = 600_000
LARGEST_COHORT = 64
"""On a CPU, stacked weights of more than some 8 MB leave the cache, and more jobs bring no gain.
Where gradients are written by hand, there is less overhead to share among jobs, and the nearer
cache of some 2 MB matters more.
"""


class BatchedTrainer(Trainer):
    """Trains a cohort as one stack, or one by one if stacking brings the model no gain.

    With `share`, updates may be views of their cohort's stack, for callers that copy them at once.
    """

    def __init__(
        self, network: Network, *arguments: Any, share: bool = False, **settings: Any
    ) -> None:
        super().__init__(network, *arguments, **settings)
        self._share = share
        self._padded = PaddedCohorts(network, self._together) if network.on.accelerates else None
        if network.device.type == "cpu":
            keep_freed_memory()

    def largest_cohort(self, task: Task) -> int | None:
        """Jobs per stack: what fits a CPU's cache, or half of an accelerator's memory."""
        if self._padded is not None:
            return self._padded.size(shape_of(task)) if self.network.stackable else None
        return self.on_a_processor(VALUES_BY_HAND if self.by_hand(task) else VALUES_PER_COHORT)

    def on_a_processor(self, values: int = VALUES_PER_COHORT) -> int:
        """The number of jobs whose stacked weights have `values` values, to fit a CPU's cache."""
        each = max(1, self.network.size_bytes // 4)
        return min(LARGEST_COHORT, max(2, values // each))

    @property
    def remarks(self) -> list[Remark]:
        """Problems with cohorts: too little memory, results that may depend on other jobs.

        Callers may remove them."""
        return [] if self._padded is None else self._padded.remarks

    def notices(self) -> list[Notice]:
        """Warnings from all present remarks."""
        return notices_of(self.remarks)

    def train(self, tasks: Sequence[Task]) -> list[Update]:
        """The updates of `tasks`, in their order."""
        stacked = self.network.stacked
        if stacked is None:
            return [train_one(self.network, self.loss, self.augmentation, one) for one in tasks]
        if stacked.one_by_one:
            return [update for one in tasks for update in self._together([one])]
        return self._together(tasks) if self._padded is None else self._padded.train(tasks)

    def _together(self, tasks: Sequence[Task], padded: int | None = None) -> list[Update]:
        """The updates of tasks computed as one stack, padded to `padded` jobs."""
        stacked = self.network.stacked
        assert stacked is not None
        generator = torch.Generator()
        plans = [task.order(self.network, generator) for task in tasks]
        counts = [len(sizes) for _, sizes in plans]
        order = sorted(range(len(tasks)), key=counts.__getitem__, reverse=True)
        # The longest job must not be alone in the last steps; a copy of it serves.
        doubles = int(stacked.single_differs and counts.count(counts[order[0]]) == 1)
        if padded is not None:
            doubles = padded - len(tasks)
        in_batch = order[:1] * doubles + order
        data = StackedBatches(
            self.network,
            [tasks[place] for place in in_batch],
            [plans[place] for place in in_batch],
            self.augmentation,
            whole=padded is not None,
        )
        updates = self._cohort(stacked, data).updates(share=self._share, after=doubles)
        placed = dict(zip(order, updates, strict=True))
        return [placed[place] for place in range(len(tasks))]

    def _cohort(self, stacked: StackedForward, data: StackedBatches) -> Cohort:
        """Chosen by model, loss and recipe only, which determine how gradients are computed."""
        chain = self.by_hand(data.tasks[0])
        if chain is not None:
            return DenseCohort(self.network, data, chain)
        return AutogradCohort(self.network, data, stacked, self.loss)

    def by_hand(self, task: Task) -> DenseChain | None:
        """The hand-written gradients for this task, if there are any."""
        stacked = self.network.stacked
        if stacked is None or self.loss is not plain_loss or not task.trains_all(self.network):
            return None
        return stacked.dense
