"""Label skew from a Dirichlet distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from simfl.learning.partitions.base import (
    Partition,
    class_labels,
    require_enough,
    sorted_rows,
)

ATTEMPTS = 1000
"""The most draws to find a split with `min_examples` at every client."""

EQUAL_SHARES = 1e12
"""A larger alpha counts as this: its shares are equal to a millionth, and sums could overflow."""


@dataclass(frozen=True)
class Dirichlet(Partition):
    """Assigns each label's rows to the clients in proportions p ~ Dirichlet(alpha, ..., alpha).

    A small alpha gives each client few labels and unequal amounts, a large one IID data. The draw
    is repeated until every client has `min_examples` rows, or an equal share if there are fewer
    rows. With `balance`, labels are assigned one by one, and a client that already has an equal
    share of all rows gets nothing of the next.

    Source: Yurochkin et al., "Bayesian Nonparametric Federated Learning of Neural Networks",
    ICML 2019; repeated draws as in Li et al., "Federated Learning on Non-IID Data Silos", 2021.
    """

    looks_at_edges: ClassVar[bool] = False

    alpha: Annotated[float, "> 0", "concentration: small is more uneven"] = 0.5
    min_examples: Annotated[int, ">= 1", "minimum examples per client"] = 10
    balance: Annotated[bool, "give no more rows to a client with an equal share of all rows"] = (
        False
    )

    def split(
        self,
        targets: np.ndarray,
        home_edge: np.ndarray,
        natural: np.ndarray | None,
        rng: np.random.Generator,
    ) -> list[np.ndarray]:
        """All rows; raises ValueError if no draw gave every client enough."""
        labels = class_labels(targets, "dirichlet")
        clients = len(home_edge)
        require_enough(len(labels), clients)
        fewest = min(self.min_examples, len(labels) // clients)
        by_label = [np.flatnonzero(labels == label) for label in np.unique(labels)]
        for _ in range(ATTEMPTS):
            counts = self._draw([len(rows) for rows in by_label], clients, rng)
            if counts.sum(axis=0).min() >= fewest:
                break
        else:
            raise ValueError(
                f"alpha: no draw of {ATTEMPTS} with alpha {self.alpha} gave each of {clients} "
                f"clients {fewest} of {len(labels)} examples; raise alpha, lower min_examples, or "
                f"take fewer clients"
            )
        cuts = [
            np.split(rng.permutation(rows), np.cumsum(count)[:-1])
            for rows, count in zip(by_label, counts, strict=True)
        ]
        parts = [np.concatenate(pieces) for pieces in zip(*cuts, strict=True)]
        return sorted_rows(parts, "too few examples")

    def _draw(self, rows: list[int], clients: int, rng: np.random.Generator) -> np.ndarray:
        """How many rows of each label each client gets: shape (labels, clients)."""
        counts = np.zeros((len(rows), clients), dtype=np.int64)
        for label, count in enumerate(rows):
            takes = np.ones(clients, dtype=bool)
            if self.balance:
                takes = counts.sum(axis=0) < sum(rows) / clients
            counts[label] = self._counts(count, clients, rng, takes)
        return counts

    def _counts(
        self, rows: int, clients: int, rng: np.random.Generator, takes: np.ndarray | None = None
    ) -> np.ndarray:
        """How many of a label's rows each client gets: shape (clients,), sum `rows`.

        `takes`: which clients get any (None: all); at least one of them.
        """
        shares = rng.dirichlet(np.full(clients, min(self.alpha, EQUAL_SHARES)))
        if takes is not None and not takes.all():
            shares = np.where(takes, shares, 0.0)
            shares = shares / shares.sum() if shares.sum() > 0 else takes / takes.sum()
        ends = np.floor(np.cumsum(shares) * rows + 1e-9).astype(np.int64)
        ends[-1] = rows
        return np.diff(np.minimum(ends, rows), prepend=0)
