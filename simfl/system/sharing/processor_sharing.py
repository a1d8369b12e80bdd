"""One channel divided equally among all senders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.system.sharing.base import Flows, Sharing


@dataclass(frozen=True)
class ProcessorSharing(Sharing):
    """Each of K gets capacity / K, at most its own rate; the rest is unused (see `max_min`)."""

    weighs: ClassVar[bool] = False

    capacity_bps: Annotated[float, "> 0", "capacity for all transfers together"]

    def rates_bps(self, flows: Flows) -> FloatArray:
        """An equal part of the capacity."""
        return np.minimum(self.capacity_bps / len(flows), flows.rate_bps)
