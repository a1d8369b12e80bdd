"""Edge non-IID: every edge server's clients hold their own labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from simfl.learning.partitions.base import (
    Partition,
    class_labels,
    require_enough,
    sorted_rows,
)


@dataclass(frozen=True)
class LabelsPerEdge(Partition):
    """Edge server m owns labels k*m .. k*m + k-1 of a random permutation of the labels.

    With more places than labels the permutation is repeated, so that edge servers share labels;
    labels that no client holds are left out. The clients of an edge server take `labels_per_client`
    of its labels in turn; the rows of a label are divided evenly among the clients that hold it.

    Source: the starting partition of FedCure (arXiv 2511.10227, section 5: 5 edge servers with 2
    of 10 labels each, mean pairwise Jensen-Shannon divergence ln 2).
    """

    labels_per_edge: Annotated[
        int | None, ">= 1", "labels per edge server (k); null: all labels, divided evenly"
    ] = None
    labels_per_client: Annotated[
        int, ">= 1", "labels per client, out of its edge server's, at most all of them"
    ] = 2

    def split(
        self,
        targets: np.ndarray,
        home_edge: np.ndarray,
        natural: np.ndarray | None,
        rng: np.random.Generator,
    ) -> list[np.ndarray]:
        """Rows of owned labels only; raises ValueError if a client would get none."""
        labels = class_labels(targets, "labels_per_edge")
        require_enough(len(labels), len(home_edge))
        holders: dict[int, list[int]] = {}
        for client, held in enumerate(self._held(np.unique(labels), home_edge, rng)):
            for label in held:
                holders.setdefault(int(label), []).append(client)
        pieces: list[list[np.ndarray]] = [[] for _ in home_edge]
        for label in sorted(holders):
            rows = rng.permutation(np.flatnonzero(labels == label))
            shares = np.array_split(rows, len(holders[label]))
            for client, share in zip(holders[label], shares, strict=True):
                pieces[client].append(share)
        parts = [np.concatenate(piece) for piece in pieces]
        return sorted_rows(parts, "their labels have fewer examples than clients")

    def _held(
        self, labels: np.ndarray, home_edge: np.ndarray, rng: np.random.Generator
    ) -> list[np.ndarray]:
        """The labels of each client."""
        permuted = rng.permutation(labels)
        # edges without clients own nothing, or their labels would be lost
        edges, position = np.unique(home_edge, return_inverse=True)
        owned = self._owned(permuted, len(edges))
        seen = [0] * len(edges)
        held = []
        for edge in position:
            mine = owned[edge]
            count = min(self.labels_per_client, len(mine))
            held.append(mine[(seen[edge] + np.arange(count)) % len(mine)])
            seen[edge] += count
        return held

    def _owned(self, permuted: np.ndarray, edges: int) -> list[np.ndarray]:
        """The labels of each edge."""
        if self.labels_per_edge is None and len(permuted) >= edges:
            return np.array_split(permuted, edges)
        count = min(self.labels_per_edge or 1, len(permuted))
        return [
            permuted[(edge * count + np.arange(count)) % len(permuted)] for edge in range(edges)
        ]
