"""IID: equal shares drawn at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simfl.learning.partitions.base import Partition, require_enough, sorted_rows


@dataclass(frozen=True)
class Iid(Partition):
    """Every client gets the same number of random rows (or one more); also for regressions."""

    looks_at_edges: ClassVar[bool] = False

    def split(
        self,
        targets: np.ndarray,
        home_edge: np.ndarray,
        natural: np.ndarray | None,
        rng: np.random.Generator,
    ) -> list[np.ndarray]:
        """All rows, split evenly."""
        clients = len(home_edge)
        require_enough(len(targets), clients)
        parts = np.array_split(rng.permutation(len(targets)), clients)
        return sorted_rows(parts, "too few examples")
