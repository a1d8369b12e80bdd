"""A fixed number of labels at every client."""

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


@dataclass(frozen=True)
class LabelsPerClient(Partition):
    """Client i has label i (modulo the number of labels), and `labels` - 1 random others.

    The rows of a label are split evenly, at random, among the clients that have it; a label that no
    client has (with fewer clients than labels, for example) is left out.

    Source: #C = k ("quantity-based label imbalance") of NIID-Bench (Li et al., "Federated Learning
    on Non-IID Data Silos: An Experimental Study", ICDE 2022, arXiv 2102.02079), as in its code. The
    partition `shards` (McMahan et al., 2017) instead has clients of equal size, with at most about
    that many labels.
    """

    looks_at_edges: ClassVar[bool] = False

    labels: Annotated[int, ">= 1", "labels per client, #C"] = 2

    def split(
        self,
        targets: np.ndarray,
        home_edge: np.ndarray,
        natural: np.ndarray | None,
        rng: np.random.Generator,
    ) -> list[np.ndarray]:
        """Rows of held labels; raises ValueError for a client without rows, or too few labels."""
        given = class_labels(targets, "labels_per_client")
        known, clients = np.unique(given), len(home_edge)
        require_enough(len(given), clients)
        if self.labels > known.size:
            raise ValueError(f"labels: found {self.labels}, accepted: at most {known.size} labels")
        holds = np.zeros((clients, known.size), dtype=bool)
        for client, own in enumerate(holds):
            first = client % known.size
            others = np.delete(np.arange(known.size), first)
            own[first] = True
            own[rng.choice(others, self.labels - 1, replace=False)] = True
        pieces: list[list[np.ndarray]] = [[] for _ in home_edge]
        for label, held in zip(known, holds.T, strict=True):
            holders = np.flatnonzero(held).tolist()
            if not holders:
                continue
            rows = rng.permutation(np.flatnonzero(given == label))
            for client, share in zip(holders, np.array_split(rows, len(holders)), strict=True):
                pieces[client].append(share)
        parts = [np.concatenate(own) for own in pieces]
        return sorted_rows(parts, "their labels have fewer examples than clients")
