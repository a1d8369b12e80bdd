"""Cohorts that workers train: how they are cut, sent and taken back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from simfl.learning.batched import BatchedTrainer
from simfl.learning.datasets.base import Examples
from simfl.learning.devices import ComputeDevice
from simfl.learning.job import Update
from simfl.learning.network import Network
from simfl.learning.padded_cohorts import Remark
from simfl.learning.task import Task
from simfl.learning.trainer import Augmentation, Loss, without_start

NO_EXAMPLES: Any = None
"""What stands for a client's data on the way to a worker, which has them."""


class SpreadTrainer(BatchedTrainer):
    """A trainer whose cohorts are computed by several workers."""

    def spread(self, tasks: Sequence[Task], workers: int) -> int:
        """Into how many cohorts to cut tasks so that every worker is kept busy."""
        count = super().pieces(tasks)
        stacked = self.network.stacked
        smallest = 2 if stacked is not None and stacked.needs_company else 1
        most = max(count, len(tasks) // smallest)
        return min(most, -(-count // workers) * workers)

    def flops(self, task: Task) -> float:
        """Floating-point operations of a job's training."""
        rows, recipe = len(task.examples), task.brief.recipe
        passes = 1.0 if recipe.kind == "gradient" else float(recipe.local.passes(rows))
        return 3 * self.network.forward_flops * rows * passes  # a backward pass costs two


def requests(cohorts: Sequence[Sequence[Task]]) -> list[list[Task]]:
    """What workers are sent of tasks: not the examples, which they have."""
    return [[replace(task, examples=NO_EXAMPLES) for task in tasks] for tasks in cohorts]


def answered(
    cohorts: Sequence[Sequence[Task]], answers: Iterable[Sequence[Update]]
) -> Iterator[list[Update]]:
    """Each cohort's updates, with the briefs of its tasks, of the answers to `requests`."""
    for tasks, updates in zip(cohorts, answers, strict=True):
        yield [
            replace(update, brief=task.brief) for task, update in zip(tasks, updates, strict=True)
        ]


@dataclass(frozen=True)
class Setup:
    """What a worker makes its own trainer from, beside the data; on `device`, or as it is here.

    A `cohort_cap` limits how many jobs it trains together.
    """

    network: Network
    loss: Loss
    augmentation: Augmentation | None
    device: ComputeDevice | str | None = None
    cohort_cap: int | None = None

    def __call__(self, shards: Sequence[Examples]) -> Cohorts:
        """What trains cohorts there."""
        network = self.network if self.device is None else self.network.placed(self.device)
        return Cohorts(
            BatchedTrainer(
                network,
                shards,
                self.loss,
                augmentation=self.augmentation,
                cohort_cap=self.cohort_cap,
                share=True,
            )
        )


class Cohorts:
    """Trains at a worker what it is asked to, tasks that come without their examples."""

    def __init__(self, trainer: BatchedTrainer) -> None:
        self._trainer = trainer

    def __call__(self, tasks: Sequence[Task]) -> list[Update]:
        """The updates, in the order of the tasks, without what they started from."""
        trainer = self._trainer
        whole = [replace(one, examples=trainer.shards[one.client]) for one in tasks]
        found: dict[int, Update] = {}
        with trainer.network.computing():
            for places in trainer.cut(whole):
                updates = trainer.train([whole[place] for place in places])
                found.update(zip(places, updates, strict=True))
        return [without_start(found[place]) for place in range(len(tasks))]

    def remarks(self) -> list[Remark]:
        """What there is to be told since this was asked the last time."""
        held = self._trainer.remarks
        new = list(held)
        held.clear()
        return new
