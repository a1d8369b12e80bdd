"""Sharing by frequency: all send all the time, each in a part of the band."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.system.sharing.base import Flows, Sharing


class _Ofdma(Sharing):
    """Base of the ways to divide a band."""

    cuts_band: ClassVar[bool] = True

    def duty(self, flows: Flows, rates_bps: FloatArray) -> FloatArray:
        """Always 1."""
        return np.ones(len(flows))


@dataclass(frozen=True)
class OfdmaEqual(_Ofdma):
    """Each of K senders gets a K-th of the band, recomputed at every arrival and departure."""

    weighs: ClassVar[bool] = False

    def rates_bps(self, flows: Flows) -> FloatArray:
        """The rate in a K-th of the band."""
        return flows.rate_at(np.full(len(flows), 1.0 / len(flows)))


@dataclass(frozen=True)
class OfdmaWeighted(_Ofdma):
    """Each sender gets its group's `band_share`, scaled down if their sum exceeds 1."""

    def rates_bps(self, flows: Flows) -> FloatArray:
        """The rate in the sender's own share."""
        return flows.rate_at(flows.weight / max(float(flows.weight.sum()), 1.0))
