"""Equal amounts of data, from one class at the first client to all at the last (CLA)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simfl.learning.partitions.base import Partition, TotalRows, class_labels


@dataclass(frozen=True)
class ClassImbalance(Partition):
    """The first client has one class, the last all, those between the first k (CLA).

    Each client has `total` / clients rows, equally many of each of its classes and the remainder of
    its last one, drawn with replacement: clients share rows, and a client may have a row twice.

    Source: CLA of FedSAC (arXiv 2405.18291), after the published code of CGSV (Xu et al., NeurIPS
    2021); 5 clients have 1, 3, 5, 7 and 10 of 10 classes.
    """

    looks_at_edges: ClassVar[bool] = False
    with_replacement: ClassVar[bool] = True

    total: TotalRows = 20000

    def split(
        self,
        targets: np.ndarray,
        home_edge: np.ndarray,
        natural: np.ndarray | None,
        rng: np.random.Generator,
    ) -> list[np.ndarray]:
        """Rows drawn with replacement; raises ValueError for fewer rows than classes."""
        labels = class_labels(targets, "class_imbalance")
        by_class = [np.flatnonzero(labels == label) for label in np.unique(labels)]
        size = self.total // len(home_edge)
        if size < len(by_class):
            raise ValueError(
                f"total: found {self.total}, which gives each of {len(home_edge)} clients {size}"
                f" rows; accepted: {len(by_class) * len(home_edge)} at least, one row of each class"
                f" for the client that has all {len(by_class)}"
            )
        parts = []
        for count in class_counts(len(home_edge), len(by_class)):
            each = np.full(count, size // count)
            each[-1] += size - each.sum()
            drawn = [
                rng.choice(rows, number, replace=True)
                for rows, number in zip(by_class, each, strict=False)
            ]
            parts.append(np.concatenate(drawn))
        return [np.sort(part) for part in parts]


def class_counts(clients: int, classes: int) -> np.ndarray:
    """The number of classes of each client: (clients,), from 1 to all, rounded down."""
    # In whole numbers: in real ones the 48th of 95 clients would have 3.9999... of 7 classes.
    return 1 + np.arange(clients) * (classes - 1) // max(clients - 1, 1)
