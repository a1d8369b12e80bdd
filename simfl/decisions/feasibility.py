"""Whether a schedule can give every edge server the participation that it is owed.

Source: FedCure (arXiv 2511.10227), whose Theorem 2 (stable queues) presumes it. With C edge servers
in flight, m among them without a break and the other C - 1 places always held by the fastest,
m's share of the dispatches is

    (1 / T_m) / (1 / T_m + (C - 1) / T_fast),

so that shares delta_m up to that can be had. With C = 2 and equal shares this is
kappa <= M / (1 + T_max / T_min).
"""

from __future__ import annotations

import numpy as np

from simfl.common.arrays import FloatArray


def attainable_share(latency_s: FloatArray, concurrency: int) -> FloatArray:
    """The share of dispatches that each edge server can be sure to get, by latencies in seconds."""
    rate = 1.0 / latency_s
    share: FloatArray = rate / (rate + (concurrency - 1) * np.nanmax(rate))
    return share
