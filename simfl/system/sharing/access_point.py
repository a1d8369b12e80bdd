"""Sharing the air of a Wi-Fi access point: one radio sends at a time, each at its own rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.system.sharing.base import Flows, Sharing


@dataclass(frozen=True)
class ThroughputFair(Sharing):
    """Plain 802.11: all send equally often, so each gets 1 / sum(1 / r) (the anomaly).

    A slow sender slows all others down (Heusse et al., INFOCOM 2003).
    """

    half_duplex: ClassVar[bool] = True
    takes_turns: ClassVar[bool] = True
    weighs: ClassVar[bool] = False

    def rates_bps(self, flows: Flows) -> FloatArray:
        """The same rate for all."""
        return np.full(len(flows), 1.0 / (1.0 / flows.rate_bps).sum())


@dataclass(frozen=True)
class AirtimeFair(Sharing):
    """All send for equal times: r / K."""

    half_duplex: ClassVar[bool] = True
    takes_turns: ClassVar[bool] = True
    weighs: ClassVar[bool] = False

    def rates_bps(self, flows: Flows) -> FloatArray:
        """A K-th of the sender's own rate."""
        return flows.rate_bps / len(flows)
