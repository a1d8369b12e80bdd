"""Cohorts on an accelerator: one fixed size, smaller ones only if memory runs out.

A kernel there may be chosen by the number of jobs, so every cohort is padded to the size that
`cohort_size.py` gives. Once for every shape of steps, a test finds out whether the bits of a job
depend on the other jobs in its cohort: the first jobs take two steps in several arrangements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from simfl.common.notices import Notice, notice
from simfl.learning.batches import padded_rows
from simfl.learning.cohort_size import SMALLEST_COHORT, cohort_jobs, job_bytes
from simfl.learning.job import LocalTraining, Update
from simfl.learning.network import Network
from simfl.learning.parameters import Parameters
from simfl.learning.task import Task

Shape = tuple[int, int]
"""Rows of a step, and the number of optimizer values per weight."""


@dataclass(frozen=True)
class Remark:
    """A problem with cohorts on a kind of device; `kind` is that of the warning."""

    kind: str
    device: str
    text: str


WARNINGS = {
    "halved_cohorts": "memory of {} ran out",
    "cohort_dependent": "results of {} may differ in their last bits from run to run",
}


def notices_of(remarks: Sequence[Remark]) -> list[Notice]:
    """Warnings for the manifest; identical remarks are shown once, and counted."""
    found = []
    for kind, what in WARNINGS.items():
        of_kind = [one for one in remarks if one.kind == kind]
        for device in dict.fromkeys(one.device for one in of_kind):
            texts = [one.text for one in of_kind if one.device == device]
            message = f"{what.format(device)}: {'; '.join(dict.fromkeys(texts))}"
            found.append(notice(kind, message, len(texts)))
    return found


Compute = Callable[[Sequence[Task], int], list[Update]]
"""Computes the updates of tasks, in a cohort padded to this number of jobs."""

HALVINGS_CHECKED = 2
"""How many times a cohort may be halved while the bits are still known to stay the same."""

STEPS_CHECKED = 2
FEWEST_CHECKED = 4
"""The number of steps, and of different jobs, in the test whether other jobs affect bits."""


def shape_of(task: Task) -> Shape:
    """The shape of a task's steps."""
    return step_shape(len(task.examples), task.brief.recipe.local)


def step_shape(num_examples: int, local: LocalTraining) -> Shape:
    """The shape of the steps of a client with this number of examples."""
    return padded_rows(num_examples, local.batch_size), local.optimizer_states


class PaddedCohorts:
    """Trains tasks in cohorts of fixed sizes; `compute` does the work, and may run out of memory.

    `remarks` are those that callers have not removed yet.
    """

    def __init__(self, network: Network, compute: Compute) -> None:
        self._network = network
        self._compute = compute
        self._sizes: dict[Shape, int] = {}
        self._same: dict[Shape, frozenset[int]] = {}
        self.remarks: list[Remark] = []

    def size(self, shape: Shape) -> int:
        """The number of jobs to which cohorts are currently padded."""
        if shape not in self._sizes:
            self._sizes[shape] = cohort_jobs(self._network, *shape)
        return self._sizes[shape]

    def train(self, tasks: Sequence[Task]) -> list[Update]:
        """The updates of tasks whose steps have the same shape, in their order."""
        shape = shape_of(tasks[0])
        if shape not in self._same:
            self._check(shape, tasks)
        found: list[Update] = []
        while len(found) < len(tasks):
            size = self.size(shape)
            part = self._try(shape, tasks[len(found) : len(found) + size], size)
            if part is None:
                self._halve(shape)
            else:
                found += part
        return found

    def _remark(self, kind: str, text: str) -> None:
        self.remarks.append(Remark(kind, self._network.on.kind, text))

    def _try(self, shape: Shape, tasks: Sequence[Task], size: int) -> list[Update] | None:
        """The updates, or None if they need more memory than available."""
        on = self._network.on
        try:
            on.claim(size * job_bytes(self._network, *shape))
            return self._compute(tasks, size)
        except torch.OutOfMemoryError:
            if size <= SMALLEST_COHORT:
                raise
        on.recover()  # after the frame of the failed call, and with it its tensors, is gone
        return None

    def _halve(self, shape: Shape) -> None:
        size = self._sizes[shape]
        self._sizes[shape] = half = size // 2
        was = f"cohorts of {size} jobs were halved to {half} ({_steps(shape)})"
        self._remark("halved_cohorts", was)
        if half not in self._same[shape]:
            unknown = f"cohorts of {half} were not compared with those of {size} ({_steps(shape)})"
            self._remark("cohort_dependent", unknown)

    def _check(self, shape: Shape, tasks: Sequence[Task]) -> None:
        """Tests for which cohort sizes, positions and other jobs a job's bits are the same.

        The test runs the same jobs in the same places; half of them in reverse order, with padding
        instead of the others; and the first ones in halved cohorts.
        """
        size = self.size(shape)
        self._same[shape] = frozenset()
        short = [_shortened(task) for task in tasks[:size]]
        while len(short) < min(size, FEWEST_CHECKED):  # the same client with other seeds
            short.append(replace(short[0], seed=short[0].seed + len(short)))
        expected = self._try(shape, short, size)
        if expected is None:  # not even this cohort fits: nothing to compare with
            return
        half = -(-len(short) // 2)
        turned = range(half - 1, -1, -1)
        arranged = self._try(shape, [short[place] for place in turned], size)
        again = self._try(shape, short, size)
        same = {size}
        for found, places in ((arranged, list(turned)), (again, list(range(len(short))))):
            if found is None or not _equal(found, [expected[place] for place in places]):
                same.clear()
        if not same:
            why = "a job's result depends on the jobs computed with it"
            where = f"in cohorts of {size} ({_steps(shape)})"
            self._remark("cohort_dependent", f"{why} {where}")
        for halvings in range(1, HALVINGS_CHECKED + 1):
            smaller = size >> halvings
            if not same or smaller < SMALLEST_COHORT:
                break
            found = self._try(shape, short[:smaller], smaller)
            if found is not None and _equal(found, expected[:smaller]):
                same.add(smaller)
        self._same[shape] = frozenset(same)


def _steps(shape: Shape) -> str:
    return f"steps of {shape[0]} rows"


def _shortened(task: Task) -> Task:
    """The task with a few steps only, of the same shape."""
    recipe = task.brief.recipe
    local = replace(recipe.local, epochs=None, share=None, steps=STEPS_CHECKED)
    return replace(task, brief=replace(task.brief, recipe=replace(recipe, local=local)))


def _equal(found: Sequence[Update], expected: Sequence[Update]) -> bool:
    """Whether updates are bit-identical."""
    return all(
        _same_bits(one.payload, other.payload)
        and _same_bits(one.memory.optimizer, other.memory.optimizer)
        and _same_bits(one.memory.private, other.memory.private)
        for one, other in zip(found, expected, strict=True)
    )


def _same_bits(one: Parameters, other: Parameters) -> bool:
    return one.keys() == other.keys() and all(
        torch.equal(_bytes(tensor), _bytes(other[name])) for name, tensor in one.items()
    )


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor's bytes, so that NaN equals NaN."""
    return tensor.contiguous().view(-1).view(torch.uint8)
