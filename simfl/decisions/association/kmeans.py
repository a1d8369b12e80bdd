"""K-Means over label distributions (a baseline of FedCure, arXiv 2511.10227, Figure 3).

As many clusters as there are edge servers (K = 5 in the paper), k-means++ with `restarts`
restarts. How clusters become coalitions: see clusters.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.decisions.clusters import ClusteredAssociation
from simfl.streams import process_generators


@dataclass(frozen=True)
class KMeans(ClusteredAssociation):
    """Groups clients with similar label distributions, by K-Means."""

    name: ClassVar[str] = "kmeans"

    restarts: Annotated[int, ">= 1", "number of starts, of which the best is kept"] = 10

    def clusters(self, features: FloatArray, edges: int, rng: np.random.Generator) -> IntArray:
        """At most as many clusters as there are different features."""
        with process_generators(0):  # what it imports draws from them
            from sklearn.cluster import (
                KMeans as Lloyd,
            )  # takes a second to import, and only this needs it

        count = min(edges, np.unique(features, axis=0).shape[0])
        seed = int(rng.integers(2**31))
        found = Lloyd(count, n_init=self.restarts, random_state=seed).fit_predict(features)
        return np.asarray(found, dtype=np.int64)
