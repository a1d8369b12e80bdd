"""The interface that every partition fills in, and what partitions share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np

TotalRows = Annotated[int, ">= 1", "rows of all clients together"]
"""The key of partitions that do not deal all rows, or deal some more than once."""


class Partition(ABC):
    """A rule that deals the training rows to the clients; its fields are its settings.

    `looks_at_edges` says that it reads clients' edge servers, `with_replacement` that it may deal a
    row to several clients, or to one of them twice.
    """

    looks_at_edges: ClassVar[bool] = True
    with_replacement: ClassVar[bool] = False

    @abstractmethod
    def split(
        self,
        targets: np.ndarray,
        home_edge: np.ndarray,
        natural: np.ndarray | None,
        rng: np.random.Generator,
    ) -> list[np.ndarray]:
        """The rows of each client: ascending int64, and none empty; disjoint, and no row twice,
        unless the rule says that it deals `with_replacement`.

        `targets`: class indices (rows,) or values (rows, outputs); `home_edge`: each client's
        edge server at the start (clients,); `natural`: owner of each row where the data set has
        owners. Raises ValueError where the data cannot be dealt so.
        """


def class_labels(targets: np.ndarray, partition: str) -> np.ndarray:
    """`targets` as class indices; raises ValueError for a regression, which has no labels."""
    if targets.ndim != 1 or not np.issubdtype(targets.dtype, np.integer):
        raise ValueError(
            f"partition {partition} goes by class labels, which a regression has not; use iid"
        )
    return targets


def require_enough(rows: int, clients: int) -> None:
    """Raises ValueError where there are fewer rows than clients, or no clients."""
    if clients < 1:
        raise ValueError("a partition needs at least one client")
    if rows < clients:
        raise ValueError(f"{rows} training examples cannot be dealt to {clients} clients")


def sorted_rows(parts: Sequence[np.ndarray], reason: str) -> list[np.ndarray]:
    """`parts` as ascending int64 rows; raises ValueError with `reason` where a client has none."""
    empty = [client for client, part in enumerate(parts) if len(part) == 0]
    if empty:
        raise ValueError(f"{len(empty)} of {len(parts)} clients would have no example: {reason}")
    return [np.sort(part.astype(np.int64)) for part in parts]
