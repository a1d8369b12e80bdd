"""A queue: first come, first served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.system.sharing.base import Flows, Sharing


@dataclass(frozen=True)
class Fifo(Sharing):
    """The first `channels` in the queue send, each at its own rate; the others wait."""

    takes_turns: ClassVar[bool] = True
    weighs: ClassVar[bool] = False

    channels: Annotated[int, ">= 1", "number of simultaneous senders"] = 1

    def rates_bps(self, flows: Flows) -> FloatArray:
        """The sender's own rate, or 0 while it waits."""
        return np.where(np.arange(len(flows)) < self.channels, flows.rate_bps, 0.0)
