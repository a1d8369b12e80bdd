"""A link of one's own: a connection that has to find its rate first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from simfl.plugins import FixedRateLink, TransferCost


@dataclass(frozen=True)
class SlowStart(FixedRateLink):
    """A fixed rate after a start in which the window doubles once per round trip, as TCP's does."""

    window_bytes: Annotated[float, "> 0", "what is sent in the first round trip"] = 14600.0

    def transmit(
        self,
        bits: ArrayLike,
        uplink: bool,
        rate_factor: ArrayLike = 1.0,
        jitter: ArrayLike | None = None,
    ) -> TransferCost:
        """One more round trip per doubling that the message takes, at the power of the transfer."""
        cost = super().transmit(bits, uplink, rate_factor, jitter)
        doublings = np.ceil(np.log2(np.maximum(np.asarray(bits) / 8 / self.window_bytes, 1.0)))
        duration_s = cost.duration_s + doublings * self.rtt_s
        longer = duration_s / np.where(cost.duration_s > 0, cost.duration_s, 1.0)
        return TransferCost(duration_s, cost.active_j * longer, cost.network_j)
