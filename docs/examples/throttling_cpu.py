"""A processor of one's own: a fanless board that clocks down when it gets hot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from simfl.plugins import ComputeCost, Cpu


@dataclass(frozen=True)
class ThrottlingCpu(Cpu):
    """A `Cpu` that after `burst_s` of work runs on at `sustained_share` of its clock."""

    burst_s: Annotated[float, ">= 0", "full speed for so long"] = 10.0
    sustained_share: Annotated[float, "> 0", "<= 1", "of the clock, afterwards"] = 0.6

    def compute(self, cycles: ArrayLike, frequency_hz: ArrayLike) -> ComputeCost:
        """The work done within `burst_s` at full speed, the rest at the sustained clock."""
        fast = super().compute(cycles, frequency_hz)
        slow = super().compute(cycles, self.sustained_share * np.asarray(frequency_hz))
        cool = self.burst_s / np.maximum(fast.duration_s, max(self.burst_s, 1e-12))
        return ComputeCost(
            cool * fast.duration_s + (1 - cool) * slow.duration_s,
            cool * fast.dynamic_j + (1 - cool) * slow.dynamic_j,
            cool * fast.static_j + (1 - cool) * slow.static_j,
        )
