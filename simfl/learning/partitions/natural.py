"""The data set's own owners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simfl.learning.partitions.base import Partition, sorted_rows


@dataclass(frozen=True)
class Natural(Partition):
    """Each client is one owner of the data set, in ascending order.

    With more owners than clients, a random choice of owners takes part. Labels are ignored, so it
    is also for regressions.
    """

    looks_at_edges: ClassVar[bool] = False

    def split(
        self,
        targets: np.ndarray,
        home_edge: np.ndarray,
        natural: np.ndarray | None,
        rng: np.random.Generator,
    ) -> list[np.ndarray]:
        """The chosen owners' rows; raises ValueError if there are fewer owners than clients."""
        if natural is None:
            raise ValueError("partition natural needs a data set whose rows have owners")
        clients = len(home_edge)
        owners, first = np.unique(natural, return_inverse=True)
        if len(owners) < clients:
            raise ValueError(
                f"partition natural: the data have {len(owners)} owners for {clients} clients; "
                f"take at most {len(owners)} clients"
            )
        chosen = np.sort(rng.choice(len(owners), clients, replace=False))
        order = np.argsort(first, kind="stable")
        ends = np.cumsum(np.bincount(first, minlength=len(owners)))
        by_owner = np.split(order, ends[:-1])
        return sorted_rows([by_owner[owner] for owner in chosen], "an owner without rows")
