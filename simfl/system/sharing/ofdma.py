"""Sharing by frequency: everybody sends all the time, in a part of the band."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.system.sharing.base import Flows, Sharing


class _Ofdma(Sharing):
    """Base of the ways to cut up a band."""

    cuts_band: ClassVar[bool] = True

    def duty(self, flows: Flows, rates_bps: FloatArray) -> FloatArray:
        """All the time."""
        return np.ones(len(flows))


@dataclass(frozen=True)
class OfdmaEqual(_Ofdma):
    """Each of K gets a K-th of the band, recomputed whenever one comes or goes."""

    weighs: ClassVar[bool] = False

    def rates_bps(self, flows: Flows) -> FloatArray:
        """The rate in a K-th of the band."""
        return flows.rate_at(np.full(len(flows), 1.0 / len(flows)))


@dataclass(frozen=True)
class OfdmaWeighted(_Ofdma):
    """Each gets its group's `band_share`; where these add up to more than 1, in proportion."""

    def rates_bps(self, flows: Flows) -> FloatArray:
        """The rate in the sender's own share."""
        return flows.rate_at(flows.weight / max(float(flows.weight.sum()), 1.0))
