"""Mean-Shift over label distributions (a baseline of FedCure, arXiv 2511.10227, Figure 3).

Flat kernel, its bandwidth a share of the median positive distance between two clients' label
distributions. How clusters become coalitions: see clusters.py. All pairs of clients are compared,
so about ten thousand clients are the limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.decisions.clusters import ClusteredAssociation
from simfl.streams import process_generators


@dataclass(frozen=True)
class MeanShift(ClusteredAssociation):
    """Groups clients with similar label distributions, by Mean-Shift."""

    bandwidth: Annotated[
        float, "> 0", "bandwidth, as a share of the median distance between clients"
    ] = 0.3

    def clusters(self, features: FloatArray, edges: int, rng: np.random.Generator) -> IntArray:
        """Deterministic: every client's feature is a start."""
        from scipy.spatial.distance import pdist

        with process_generators(0):  # what it imports draws from them
            from sklearn.cluster import (
                MeanShift as FlatKernel,
            )  # takes a second to import; only this needs it

        distance = pdist(features)
        apart = distance[distance > 0]
        if not apart.size:
            return np.zeros(features.shape[0], dtype=np.int64)
        kernel = FlatKernel(
            bandwidth=self.bandwidth * float(np.median(apart)),
            seeds=np.unique(features, axis=0),
        )
        return np.asarray(kernel.fit_predict(features), dtype=np.int64)
