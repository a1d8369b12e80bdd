"""Virtual queues of owed participation (FedCure, arXiv 2511.10227, Eq. 13)."""

from __future__ import annotations

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.decisions.views import EdgeView


def advanced(queues: FloatArray | None, view: EdgeView, participation: float) -> FloatArray:
    """Lambda(t) of all edge servers, idle or not, from Lambda(t - 1) (None: the first decision).

        Lambda_m(t) = max(Lambda_m(t - 1) + delta_m - chi_m(t - 1), 0),  delta_m = kappa D_m / D

    chi_m(t - 1) is 1 for those dispatched in the round before (in round 0 all, with Lambda_m(0) =
    0; the paper's Lambda_m(-1) = -delta_m is equivalent).

    Departures
    1. The paper's Eq. 13 prints chi_m(t), which is not known when Lambda_m(t) is needed; its
       Algorithm 2 and Eq. 32 mean chi_m(t - 1).
    2. All queues advance, not only those of idle edge servers, because a share is owed in every
       round.
    """
    before = np.zeros(view.data_share.size) if queues is None else queues
    served = view.last_dispatch_round == view.round - 1
    after: FloatArray = np.maximum(before + participation * view.data_share - served, 0.0)
    return after
