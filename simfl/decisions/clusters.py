"""Coalitions from clusters of similar clients: the baselines of FedCure's Figure 3.

A client's feature is its label distribution. If there are more clusters than edge servers, the
smallest is repeatedly merged into the one with the nearest centre. `mode` then has two values:

    as_coalitions   a cluster is a coalition: like stays with like (the paper's figure)
    sampled         the clients of each cluster are dealt out to all edge servers in turn

Departures from the paper, which does not say how clusters are assigned to edge servers
1. Clusters are numbered so that as many clients as possible stay where they are (an assignment
   problem).
2. With fewer clusters than edge servers some edge servers stay without clients.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.decisions.base import Association
from simfl.decisions.coalition_game import require_labels
from simfl.decisions.divergence import label_distribution
from simfl.decisions.views import AssociationView


@dataclass(frozen=True)
class ClusteredAssociation(Association):
    """Base of associations by clusters of label distributions."""

    looks_at_places: ClassVar[bool] = False

    mode: Literal["as_coalitions", "sampled"] = "as_coalitions"

    @abstractmethod
    def clusters(self, features: FloatArray, edges: int, rng: np.random.Generator) -> IntArray:
        """The cluster of each client, by `features` of shape (clients, labels)."""

    def decide(
        self, view: AssociationView, rng: np.random.Generator
    ) -> tuple[IntArray, dict[str, Any]]:
        """Coalitions by cluster; the log keeps each client's original cluster."""
        require_labels(view, "clustering")
        edges = view.edge_position_m.shape[0]
        features = label_distribution(view.label_counts.astype(float))
        found = self.clusters(features, edges, rng)
        if self.mode == "sampled":
            edge: IntArray = np.empty_like(found)
            edge[np.argsort(found, kind="stable")] = np.arange(found.size) % edges
        else:
            edge = at_home(merged(found, features, edges), view.home_edge, edges)
        return edge, {"clusters": found.tolist()}


def merged(cluster: IntArray, features: FloatArray, most: int) -> IntArray:
    """At most `most` clusters: repeatedly merges the smallest into the nearest one."""
    cluster = np.unique(cluster, return_inverse=True)[1]
    while (count := int(cluster.max()) + 1) > most:
        sizes = np.bincount(cluster)
        centres = np.stack([features[cluster == one].mean(axis=0) for one in range(count)])
        smallest = int(sizes.argmin())
        distance = np.linalg.norm(centres - centres[smallest], axis=1)
        distance[smallest] = np.inf
        cluster[cluster == smallest] = int(distance.argmin())
        cluster = np.unique(cluster, return_inverse=True)[1]
    return cluster


def at_home(cluster: IntArray, home: IntArray, edges: int) -> IntArray:
    """An edge server for each cluster such that as many clients as possible stay at `home`."""
    from scipy.optimize import linear_sum_assignment  # slow to import, and not always needed

    overlap = np.zeros((int(cluster.max()) + 1, edges))
    np.add.at(overlap, (cluster, home), 1.0)
    _, edge_of = linear_sum_assignment(overlap, maximize=True)
    return np.asarray(edge_of[cluster], dtype=np.int64)
