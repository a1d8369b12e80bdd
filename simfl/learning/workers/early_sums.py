"""Sums of updates that workers compute before they are requested.

How an algorithm weights updates is known only when it sums them. Most weight them by their numbers
of examples, over all clients that were sent the same server state at once (each edge server has its
own state). In that case parts of these sums can be sent with the answers, and merged while other
workers are still busy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from simfl.learning.sums import PartialSum, shares
from simfl.learning.task import Task

Wanted = Sequence[tuple[Sequence[float], Mapping[int, int]]]
"""For each sum the weights of all members, and the members in this request: place -> answer's
index.
"""


class Foreseen:
    """The mean of updates weighted by their examples, in canonical order; workers compute it if
    `wanted`.
    """

    def __init__(self, sizes: Sequence[int], *, wanted: bool) -> None:
        self.weights = shares(sizes) if any(sizes) else []
        self.wanted = wanted and bool(self.weights)
        self._sum: PartialSum | None = PartialSum(self.weights) if self.wanted else None

    def take(self, part: PartialSum) -> None:
        """Add the part from one request."""
        if self._sum is not None:
            self._sum.merge(part)

    def is_the(self, weights: Sequence[float], members: Mapping[int, int]) -> bool:
        """Whether a sum with these weights is this one; `members` maps places to members."""
        same = len(members) == len(self.weights) and list(weights) == self.weights
        return same and all(place == member for place, member in members.items())

    def taken(self) -> PartialSum | None:
        """The sum, if workers computed it; returned only once."""
        found, self._sum = self._sum, None
        return found


class ForeseenSums:
    """A mean for each state that these cohorts' jobs start from.

    For each cohort's jobs, `places` give the mean that they belong to and their place in it.
    """

    def __init__(self, cohorts: Sequence[Sequence[Task]], *, wanted: bool) -> None:
        groups: dict[int, list[tuple[int, int, int, int]]] = {}
        for number, tasks in enumerate(cohorts):
            for place, task in enumerate(tasks):
                job = (task.client, number, place, len(task.examples))
                groups.setdefault(id(task.state), []).append(job)
        found: dict[tuple[int, int], tuple[Foreseen, int]] = {}
        for jobs in groups.values():
            jobs.sort()
            mean = Foreseen([examples for *_, examples in jobs], wanted=wanted)
            for member, (_, number, place, _) in enumerate(jobs):
                found[number, place] = mean, member
        self.places = [
            [found[number, place] for place in range(len(tasks))]
            for number, tasks in enumerate(cohorts)
        ]

    def of(self, number: int) -> Wanted:
        """The sums to be sent with the answers to this request."""
        return [(mean.weights, members) for mean, members in self._in(number)]

    def take(self, number: int, parts: Sequence[PartialSum]) -> None:
        """Add what came with the answers to this request."""
        for (mean, _), part in zip(self._in(number), parts, strict=True):
            mean.take(part)

    def _in(self, number: int) -> Iterator[tuple[Foreseen, Mapping[int, int]]]:
        """The means that a request's answers belong to, each with its members."""
        held: dict[Foreseen, dict[int, int]] = {}
        for place, (mean, member) in enumerate(self.places[number]):
            if mean.wanted:
                held.setdefault(mean, {})[member] = place
        yield from held.items()
