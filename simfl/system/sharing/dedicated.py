"""No sharing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from simfl.common.arrays import FloatArray
from simfl.system.sharing.base import Flows, Sharing


@dataclass(frozen=True)
class Dedicated(Sharing):
    """Every sender has its full rate."""

    contended: ClassVar[bool] = False
    weighs: ClassVar[bool] = False

    def rates_bps(self, flows: Flows) -> FloatArray:
        """The sender's own rate."""
        return flows.rate_bps
