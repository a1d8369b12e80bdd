"""Counts the training done by each worker, for display.

These are seconds of a clock on the wall; nothing that is learned or simulated may depend on them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple


class WorkerShare(NamedTuple):
    """How many jobs a worker trained, and how many wall seconds that took it."""

    worker: str
    jobs: int
    training_s: float


class Tally:
    """What workers did, by their names."""

    def __init__(self) -> None:
        self._jobs: defaultdict[str, int] = defaultdict(int)
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def add(self, worker: str, jobs: int, seconds: float) -> None:
        """It trained so many more; fewer than none: what is done again by another one."""
        self._jobs[worker] += jobs
        self._seconds[worker] += seconds

    def shares(self) -> list[WorkerShare]:
        """Of all who trained something, by name."""
        return [
            WorkerShare(worker, jobs, self._seconds[worker])
            for worker, jobs in sorted(self._jobs.items())
            if jobs
        ]
