"""Whether a schedule can give every edge server the participation that it is owed.

Source: FedCure (arXiv 2511.10227), whose Theorem 2 (stable queues) presumes it. With C edge servers
in flight, of the M that have clients, m among them without a break and the other places always held
by the fastest of the others, m's share of the dispatches is

    (1 / T_m) / (1 / T_m + sum of the min(C, M) - 1 largest 1 / T of the others),

so that shares delta_m up to that can be had. With C = 2 and equal shares this is
kappa <= M / (1 + T_max / T_min).
"""

from __future__ import annotations

import numpy as np

from simfl.common.arrays import FloatArray


def attainable_share(latency_s: FloatArray, concurrency: int) -> FloatArray:
    """The share of dispatches that each edge server can be sure to get, by latencies in seconds.

    NaN where the latency is: an edge server without clients takes no place.
    """
    rate = 1.0 / latency_s
    others = min(concurrency, int((~np.isnan(rate)).sum())) - 1
    order = np.argsort(-rate, kind="stable")
    rank = np.argsort(order)
    beside = rate[order[:others]].sum() + rate
    among = rate[order[: others + 1]].sum()  # the same of those who are themselves so fast
    share: FloatArray = rate / np.where(rank < others, among, beside)
    return share
