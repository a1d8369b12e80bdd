"""Quantity skew from a Dirichlet distribution, with random labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from simfl.learning.partitions.base import Partition, require_enough, sorted_rows
from simfl.learning.partitions.dirichlet import EQUAL_SHARES

MOST_DRAWN = 20_000_000
"""The most shares drawn, over all clients and attempts, to find a split; takes seconds.

A hundred clients with alpha 0.5 need 40,000 attempts until each has at least 10 of 60,000 rows.
"""

AT_ONCE = 1_000_000
"""The most shares in memory at a time."""


@dataclass(frozen=True)
class DirichletSizes(Partition):
    """The clients have shares q ~ Dirichlet(alpha, ..., alpha) of all rows, at random.

    The draw is repeated until every client has `min_examples` rows, or an equal share if there are
    fewer rows. Also for regressions.

    Source: quantity skew of NIID-Bench (Li et al., "Federated Learning on Non-IID Data Silos: An
    Experimental Study", ICDE 2022, arXiv 2102.02079).
    """

    looks_at_edges: ClassVar[bool] = False

    alpha: Annotated[float, "> 0", "concentration: small is more uneven"] = 0.5
    min_examples: Annotated[int, ">= 1", "minimum examples per client"] = 10

    def split(
        self,
        targets: np.ndarray,
        home_edge: np.ndarray,
        natural: np.ndarray | None,
        rng: np.random.Generator,
    ) -> list[np.ndarray]:
        """All rows; raises ValueError if no draw gave every client enough."""
        clients, rows = len(home_edge), len(targets)
        require_enough(rows, clients)
        counts = self._counts(rows, clients, rng)
        parts = np.split(rng.permutation(rows), np.cumsum(counts)[:-1])
        return sorted_rows(parts, "too few examples")

    def _counts(self, rows: int, clients: int, rng: np.random.Generator) -> np.ndarray:
        """How many rows each client gets: shape (clients,), sum `rows`."""
        fewest = min(self.min_examples, rows // clients)
        concentration = np.full(clients, min(self.alpha, EQUAL_SHARES))
        attempts, together = 0, 1
        while attempts * clients < MOST_DRAWN:
            shares = rng.dirichlet(concentration, together)
            ends = np.floor(np.cumsum(shares, axis=1) * rows + 1e-9).astype(np.int64)
            ends[:, -1] = rows
            counts = np.diff(np.minimum(ends, rows), axis=1, prepend=0)
            enough = np.flatnonzero(counts.min(axis=1) >= fewest)
            if enough.size:
                found: np.ndarray = counts[enough[0]]
                return found
            attempts += together
            together = max(min(2 * together, AT_ONCE // clients), 1)
        raise ValueError(
            f"alpha: no draw of {attempts} with alpha {self.alpha} gave each of"
            f" {clients} clients {fewest} of {rows} examples; raise alpha, lower min_examples, or"
            f" take fewer clients"
        )
