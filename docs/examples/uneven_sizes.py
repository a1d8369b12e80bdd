"""A partition of one's own: IID labels, unequal amounts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from simfl.plugins import Partition, require_enough, sorted_rows


@dataclass(frozen=True)
class UnevenSizes(Partition):
    """Client i gets a share of the rows proportional to (i + 1)^-exponent, at random."""

    exponent: Annotated[float, ">= 0", "0 is equal shares"] = 1.0

    def split(
        self,
        targets: np.ndarray,
        home_edge: np.ndarray,
        natural: np.ndarray | None,
        rng: np.random.Generator,
    ) -> list[np.ndarray]:
        """One row for everybody, the rest by share."""
        clients = len(home_edge)
        require_enough(len(targets), clients)
        share = np.arange(1, clients + 1, dtype=float) ** -self.exponent
        ends = np.cumsum(share / share.sum()) * (len(targets) - clients)
        cuts = np.arange(1, clients) + ends[:-1].astype(np.int64)
        return sorted_rows(np.split(rng.permutation(len(targets)), cuts), "too few examples")
