"""The Jensen-Shannon divergence of label distributions, in nats.

Source: FedCure (arXiv 2511.10227), Eq. 3. With a = (p + q) / 2,

    JS(p, q) = (KL(p || a) + KL(q || a)) / 2 = H(a) - (H(p) + H(q)) / 2,

H the entropy with 0 log 0 = 0; it lies between 0 (equal) and ln 2 (disjoint supports).
"""

from __future__ import annotations

import numpy as np

from simfl.common.arrays import FloatArray, IntArray


def entropy(p: FloatArray) -> FloatArray:
    """H(p) in nats over the last axis."""
    from scipy.special import entr  # takes as long to import as a small run to begin

    total: FloatArray = entr(p).sum(axis=-1)
    return total


def js_divergence(p: FloatArray, q: FloatArray) -> FloatArray:
    """JS(p, q) over the last axis; broadcasts over leading axes."""
    divergence = entropy((p + q) / 2.0) - (entropy(p) + entropy(q)) / 2.0
    return np.maximum(divergence, 0.0)  # rounding must not make it negative


def label_distribution(counts: FloatArray) -> FloatArray:
    """Counts over the last axis as shares; rows hold at least one example."""
    shares: FloatArray = counts / counts.sum(axis=-1, keepdims=True)
    return shares


def coalition_counts(label_counts: IntArray, place: IntArray) -> FloatArray:
    """Label counts per coalition, shape (coalitions, labels), of clients at `place`."""
    columns = [np.bincount(place, weights=column) for column in label_counts.T]
    return np.stack(columns, axis=1) if columns else np.zeros((int(place.max()) + 1, 0))


def mean_js(label_counts: IntArray, edge: IntArray) -> float:
    """Eq. 3: the mean JS over all pairs of edge servers that have clients; 0 for a single one."""
    edges, place = np.unique(edge, return_inverse=True)
    if edges.size < 2:
        return 0.0
    shares = label_distribution(coalition_counts(label_counts, place))
    first, second = np.triu_indices(edges.size, k=1)
    return float(js_divergence(shares[first], shares[second]).mean())
