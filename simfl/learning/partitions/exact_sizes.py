"""Given amounts of data, with random labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from simfl.learning.partitions.base import Partition, sorted_rows


@dataclass(frozen=True)
class ExactSizes(Partition):
    """Client i gets `sizes[i]` random rows, no row twice; the remaining rows are not used.

    Also for regressions.
    """

    looks_at_edges: ClassVar[bool] = False

    sizes: Annotated[tuple[int, ...], ">= 1", "rows of each client, one number per client"]

    def split(
        self,
        targets: np.ndarray,
        home_edge: np.ndarray,
        natural: np.ndarray | None,
        rng: np.random.Generator,
    ) -> list[np.ndarray]:
        """Rows by the given sizes; raises ValueError for too few rows or sizes."""
        if len(self.sizes) != len(home_edge):
            raise ValueError(
                f"sizes: found {len(self.sizes)} numbers for {len(home_edge)} clients; accepted:"
                f" one per client"
            )
        ends = np.cumsum(self.sizes)
        if ends[-1] > len(targets):
            raise ValueError(
                f"sizes: found {ends[-1]} rows together, accepted: at most the {len(targets)}"
                " available"
            )
        drawn = rng.permutation(len(targets))[: ends[-1]]
        return sorted_rows(np.split(drawn, ends[:-1]), "sizes has a 0")
