"""Distributes cohorts to workers: splits, sends and collects them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from simfl.learning.batched import BatchedTrainer
from simfl.learning.codecs.base import ValueCodec
from simfl.learning.datasets.base import Examples
from simfl.learning.devices import ComputeDevice, device_of
from simfl.learning.job import Brief, Memory, Update
from simfl.learning.network import Network
from simfl.learning.padded_cohorts import Remark
from simfl.learning.parameters import Parameters
from simfl.learning.task import Task
from simfl.learning.trainer import Augmentation, Loss


class Asked(NamedTuple):
    """What a worker is sent of a task, without the examples, which it has."""

    client: int
    seed: int
    version: int
    brief: Brief
    memory: Memory
    common: Any
    received: Parameters | None
    uplink: ValueCodec | None


class Outcome(NamedTuple):
    """What is sent back, without what the sender knows. No `memory` means that it is unchanged."""

    payload: Parameters
    memory: Memory | None
    measures: Mapping[str, float]
    steps: int


class SpreadTrainer(BatchedTrainer):
    """A trainer whose cohorts are computed by several workers."""

    def spread(self, tasks: Sequence[Task], workers: int) -> int:
        """The number of cohorts to split tasks into so that every worker is kept busy."""
        count = super().pieces(tasks)
        stacked = self.network.stacked
        smallest = 2 if stacked is not None and stacked.single_differs else 1
        most = max(count, len(tasks) // smallest)
        return min(most, -(-count // workers) * workers)

    def flops(self, task: Task) -> float:
        """Floating-point operations of a job's training."""
        rows, recipe = len(task.examples), task.brief.recipe
        passes = 1.0 if recipe.kind == "gradient" else float(recipe.local.passes(rows))
        return 3 * self.network.forward_flops * rows * passes  # a backward pass costs two


def requests(cohorts: Sequence[Sequence[Task]]) -> list[list[Asked]]:
    """What workers are sent of tasks."""
    return [
        [
            Asked(
                one.client,
                one.seed,
                one.version,
                one.brief,
                one.memory,
                one.common,
                one.received,
                one.uplink,
            )
            for one in tasks
        ]
        for tasks in cohorts
    ]


def answered(
    cohorts: Sequence[Sequence[Task]], answers: Iterable[Sequence[Outcome]]
) -> Iterator[list[Update]]:
    """Each cohort's updates, from the answers to `requests`."""
    for tasks, outcomes in zip(cohorts, answers, strict=True):
        yield [_update(task, outcome) for task, outcome in zip(tasks, outcomes, strict=True)]


def _update(task: Task, outcome: Outcome) -> Update:
    return Update(
        client=task.client,
        brief=task.brief,
        payload=outcome.payload,
        memory=task.memory if outcome.memory is None else outcome.memory,
        num_examples=len(task.examples),
        version=task.version,
        measures=outcome.measures,
        steps=outcome.steps,
    )


@dataclass(frozen=True)
class Setup:
    """What a worker creates its trainer from, besides the data; on `device`, or on the network's
    own.

    It may use `memory_share` of the device's memory. A `cohort_cap` limits how many jobs it trains
    together.
    """

    network: Network
    loss: Loss
    augmentation: Augmentation | None
    device: ComputeDevice | str | None = None
    memory_share: float = 1.0
    cohort_cap: int | None = None

    def __call__(self, shards: Sequence[Examples]) -> Cohorts:
        """The function that trains cohorts at the worker."""
        network = self.network
        if self.device is not None:  # created at the worker, with its share
            network = network.placed(device_of(self.device).part(self.memory_share))
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
    """Trains cohorts at a worker on request."""

    def __init__(self, trainer: BatchedTrainer) -> None:
        self._trainer = trainer

    def __call__(self, asked: Sequence[Asked]) -> list[Outcome]:
        """The outcome of each, in order."""
        trainer = self._trainer
        tasks = [
            Task(
                one.client,
                one.seed,
                one.version,
                one.brief,
                one.memory,
                trainer.shards[one.client],
                one.common,
                one.received,
                one.uplink,
            )
            for one in asked
        ]
        found: dict[int, Outcome] = {}
        with trainer.network.computing():
            for places in trainer.cut(tasks):
                updates = trainer.train([tasks[place] for place in places])
                for place, update in zip(places, updates, strict=True):
                    memory = None if update.memory is tasks[place].memory else update.memory
                    found[place] = Outcome(update.payload, memory, update.measures, update.steps)
        return [found[place] for place in range(len(tasks))]

    def remarks(self) -> list[Remark]:
        """Remarks since the last call."""
        held = self._trainer.remarks
        new = list(held)
        held.clear()
        return new
