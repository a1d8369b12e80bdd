"""Amounts of data by a power law, with random labels (POW)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from simfl.learning.partitions.base import Partition, TotalRows, sorted_rows

SMALLEST, LARGEST = 0.01, 0.99
"""The first and last quantile of the law; clients are equally spaced between them."""


@dataclass(frozen=True)
class PowerLaw(Partition):
    """`total` random rows; client i's share is quantile i of the power law x^(exponent-1) (POW).

    The last client gets the rows that rounding up has left. Also for regressions.

    Source: POW of FedSAC (arXiv 2405.18291), after the published code of CGSV (Xu et al., NeurIPS
    2021); 10 clients with 20,000 rows have 236, 628, 1020, ... 3373, 3760.
    """

    looks_at_edges: ClassVar[bool] = False

    total: TotalRows = 20000
    exponent: Annotated[float, "> 0", "a of the law"] = 1.65911332899

    def split(
        self,
        targets: np.ndarray,
        home_edge: np.ndarray,
        natural: np.ndarray | None,
        rng: np.random.Generator,
    ) -> list[np.ndarray]:
        """`total` of the rows; raises ValueError if there are fewer."""
        if self.total > len(targets):
            raise ValueError(f"total: found {self.total}, accepted: at most {len(targets)} rows")
        drawn = rng.permutation(len(targets))[: self.total]
        ends = np.cumsum(self.sizes(len(home_edge)))
        return sorted_rows(np.split(drawn, ends[:-1]), "total is too small for so many clients")

    def sizes(self, clients: int) -> np.ndarray:
        """The number of rows of each client: (clients,), ascending except for the last."""
        lowest, highest = (q ** (1 / self.exponent) for q in (SMALLEST, LARGEST))
        share = np.linspace(lowest, highest, clients)
        ends = np.minimum(np.cumsum(np.ceil(share / share.sum() * self.total)), self.total)
        return np.diff(ends.astype(np.int64), prepend=0)
