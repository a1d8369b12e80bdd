"""The sum of a training's updates, asked of workers before anybody wants it.

How an algorithm weighs updates is known only when it adds them up. Most weigh them by their
examples, all of a training at once: then parts of the sum can come with the answers, and be merged
while other workers are still busy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simfl.learning.sums import PartialSum, shares
from simfl.learning.task import Task

Wanted = tuple[Sequence[float], Sequence[int]]
"""Weights of all members of a sum, and the places in it of a request's answers, in their order."""


class Foreseen:
    """The mean of all updates of these cohorts by their examples, in canonical order.

    `places` are those in it of each cohort's jobs. Workers are asked for it where it is `wanted`.
    """

    def __init__(self, cohorts: Sequence[Sequence[Task]], *, wanted: bool) -> None:
        jobs = [
            (task.client, number, place, len(task.examples))
            for number, tasks in enumerate(cohorts)
            for place, task in enumerate(tasks)
        ]
        jobs.sort()
        sizes = [examples for *_, examples in jobs]
        self.weights = shares(sizes) if any(sizes) else []
        self.places = [[0] * len(tasks) for tasks in cohorts]
        for member, (_, number, place, _) in enumerate(jobs):
            self.places[number][place] = member
        self._sum = PartialSum(self.weights) if wanted and self.weights else None

    def of(self, number: int) -> Wanted | None:
        """What a worker is asked for with the answers to this request."""
        return None if self._sum is None else (self.weights, self.places[number])

    def take(self, part: PartialSum) -> None:
        """The part of one request."""
        if self._sum is not None:
            self._sum.merge(part)

    def is_the(self, weights: Sequence[float], members: Mapping[int, int]) -> bool:
        """Whether a sum with these weights is this one; `members`: what stands at which place."""
        same = len(members) == len(self.weights) and list(weights) == self.weights
        return same and all(place == member for place, member in members.items())

    def taken(self) -> PartialSum | None:
        """The sum, where workers were asked for it; it is given away once."""
        found, self._sum = self._sum, None
        return found
