"""Whether a schedule can give every edge server its owed participation.

Source: FedCure (arXiv 2511.10227), whose Theorem 2 (stable queues) presumes it. Let C of the M edge
servers with clients be in flight. If m is always among them and the fastest others always hold the
other places, m's share of the dispatches is

    (1 / T_m) / (1 / T_m + sum of the min(C, M) - 1 largest 1 / T of the others),

so that shares delta_m up to that are attainable. With C = 2 and equal shares this is kappa <= M /
(1 + T_max / T_min).
"""

from __future__ import annotations

import numpy as np

from simfl.common.arrays import FloatArray


def attainable_share(latency_s: FloatArray, concurrency: int) -> FloatArray:
    """The share of dispatches that each edge server can be sure to get, by latencies in seconds.

    NaN if the latency is NaN: an edge server without clients takes no place.
    """
    rate = 1.0 / latency_s
    others = min(concurrency, int((~np.isnan(rate)).sum())) - 1
    order = np.argsort(-rate, kind="stable")
    rank = np.argsort(order)
    beside = rate[order[:others]].sum() + rate
    among = rate[
        order[: others + 1]
    ].sum()  # the same for those that are among the fastest themselves
    share: FloatArray = rate / np.where(rank < others, among, beside)
    return share
