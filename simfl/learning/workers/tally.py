"""Counts the training done by each worker, for display.

These are wall-clock seconds; nothing that is learned or simulated may depend on them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple


class WorkerShare(NamedTuple):
    """How many jobs a worker trained, and in how many wall seconds."""

    worker: str
    jobs: int
    training_s: float


class Tally:
    """The workers' training, by name."""

    def __init__(self) -> None:
        self._jobs: defaultdict[str, int] = defaultdict(int)
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def add(self, worker: str, jobs: int, seconds: float) -> None:
        """Add jobs and seconds; negative if another worker does them again."""
        self._jobs[worker] += jobs
        self._seconds[worker] += seconds

    def shares(self) -> list[WorkerShare]:
        """The shares of all workers that trained something, by name."""
        return [
            WorkerShare(worker, jobs, self._seconds[worker])
            for worker, jobs in sorted(self._jobs.items())
            if jobs
        ]
