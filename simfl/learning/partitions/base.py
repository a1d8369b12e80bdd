"""The interface of every partition, and shared functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np

TotalRows = Annotated[int, ">= 1", "number of rows of all clients together"]
"""The key of partitions that do not use all rows, or use some more than once."""


class Partition(ABC):
    """A rule that assigns the training rows to the clients; its fields are its settings.

    `looks_at_edges`: it reads clients' edge servers. `with_replacement`: it may assign a row to
    several clients, or to one client twice.
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
        """The rows of each client: ascending int64, none empty, each row at most once.

        `targets`: class indices (rows,) or values (rows, outputs); `home_edge`: each client's edge
        server at the start (clients,); `natural`: owner of each row if the data set has owners.
        Raises ValueError if the data cannot be partitioned like this.
        """


def class_labels(targets: np.ndarray, partition: str) -> np.ndarray:
    """`targets` as class indices; raises ValueError for a regression, which has no labels."""
    if targets.ndim != 1 or not np.issubdtype(targets.dtype, np.integer):
        raise ValueError(
            f"partition {partition} uses class labels, which a regression does not have; use iid"
        )
    return targets


def require_enough(rows: int, clients: int) -> None:
    """Raises ValueError if there are fewer rows than clients, or no clients."""
    if clients < 1:
        raise ValueError("a partition needs at least one client")
    if rows < clients:
        raise ValueError(f"{rows} training examples are too few for {clients} clients")


def sorted_rows(parts: Sequence[np.ndarray], reason: str) -> list[np.ndarray]:
    """`parts` as ascending int64 rows; raises ValueError with `reason` if a client has none."""
    empty = [client for client, part in enumerate(parts) if len(part) == 0]
    if empty:
        raise ValueError(f"{len(empty)} of {len(parts)} clients would have no example: {reason}")
    return [np.sort(part.astype(np.int64)) for part in parts]
