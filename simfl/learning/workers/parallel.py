"""The batched trainer on several cores, with worker processes or threads.

The number of workers changes no bit: every cohort is computed by one of them with one thread, as it
would be here. A cohort with hand-written gradients is a chain of products that do not need the
interpreter, so it is computed in a thread: nothing is started or sent. For any other cohort, the
interpreter or a process-wide random generator would be a bottleneck.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import torch

from simfl.learning.datasets.base import Examples
from simfl.learning.job import Update
from simfl.learning.network import Network
from simfl.learning.task import Task
from simfl.learning.trainer import Augmentation, Loss
from simfl.learning.workers.pool import WorkerPool
from simfl.learning.workers.spread import Setup, SpreadTrainer, answered, requests
from simfl.learning.workers.tally import WorkerShare

FEWEST_FLOPS = 4e8
"""With fewer floating-point operations in all jobs, sending them takes longer than computing
them.
"""

FEWEST_FLOPS_FOR_THREADS = 1.2e9
"""The same for threads, which take turns in Python between short products."""

FEWEST_FLOPS_PER_JOB = 2e7
"""The same for one job, whose update has to be sent back."""

Trained = tuple[str, float, list[Update]]
"""Where a cohort was trained, in how many wall seconds, and its updates."""

ROUNDING = 16
"""Values that alignment may add to a packed tensor."""


class ParallelTrainer(SpreadTrainer):
    """Trains cohorts in `workers` processes or threads, which start when they are first needed.

    Further arguments are the trainer's. Network, loss and augmentation must be picklable; raises
    ValueError if they are not, or if the device is not a CPU. `prepare`: see `WorkerPool`.
    """

    def __init__(
        self,
        network: Network,
        shards: Sequence[Examples],
        loss: Loss,
        *,
        workers: int,
        prepare: Sequence[Callable[[], object]] = (),
        augmentation: Augmentation | None = None,
        **settings: Any,
    ) -> None:
        if network.device.type != "cpu":
            raise ValueError("worker processes share a CPU's cores; on an accelerator use none")
        super().__init__(network, shards, loss, augmentation=augmentation, **settings)
        cast = [shard.placed(network.dtype, network.device) for shard in shards]
        jobs = self.cohort_cap or self.on_a_processor()
        values = network.size_bytes // 4 + ROUNDING * len(network.tensor_names)
        self._threads = ThreadPoolExecutor(workers, "thread", torch.set_num_threads, (1,))
        self.pool = WorkerPool(
            workers,
            Setup(network, loss, augmentation),
            cast,
            prepare,
            tensor_bytes=jobs * values * network.dtype.itemsize,
        )

    def pieces(self, tasks: Sequence[Task]) -> int:
        """As many cohorts as keep every worker busy, if the work is worth sending."""
        if not self._worth_sending(tasks):
            return super().pieces(tasks)
        return self.spread(tasks, self.pool.count)

    def train_each(self, cohorts: Sequence[Sequence[Task]]) -> Iterator[list[Update]]:
        """Each cohort's updates, in the order of the cohorts."""
        everything = [task for tasks in cohorts for task in tasks]
        if len(cohorts) == 1 or not self._worth_sending(everything):
            here = partial(self._timed, where="this process")
            yield from self._tallied(map(here, cohorts))
        elif all(self._needs_no_interpreter(tasks) for tasks in cohorts):
            yield from self._tallied(self._threads.map(self._timed, cohorts))
        else:
            yield from answered(cohorts, self.pool.map(requests(cohorts)))

    def _timed(self, tasks: Sequence[Task], where: str | None = None) -> Trained:
        began = time.perf_counter()
        updates = self.train(tasks)
        seconds = time.perf_counter() - began
        return where or threading.current_thread().name, seconds, updates

    def _tallied(self, cohorts: Iterable[Trained]) -> Iterator[list[Update]]:
        for where, seconds, updates in cohorts:
            self.pool.tally.add(where, len(updates), seconds)
            yield updates

    def trained_where(self) -> list[WorkerShare]:
        """Shares of this process, its threads, and other processes."""
        return self.pool.tally.shares()

    def close(self) -> None:
        """End the worker processes."""
        self.pool.close()

    def _needs_no_interpreter(self, tasks: Sequence[Task]) -> bool:
        first = tasks[0]
        draws = self.augmentation is not None
        return self.by_hand(first) is not None and not draws and not first.brief.recipe.measure

    def _worth_sending(self, tasks: Sequence[Task]) -> bool:
        flops = sum(map(self.flops, tasks))
        threads = self._needs_no_interpreter(tasks)
        least = FEWEST_FLOPS_FOR_THREADS if threads else FEWEST_FLOPS
        return flops >= max(least, FEWEST_FLOPS_PER_JOB * len(tasks))
