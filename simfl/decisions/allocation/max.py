"""Every client computes as fast as it can."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simfl.decisions.base import Allocation
from simfl.decisions.views import ClientView, FloatArray


@dataclass(frozen=True)
class Max(Allocation):
    """The highest frequency of each device."""

    def decide(self, view: ClientView, rng: np.random.Generator) -> FloatArray:
        """`view.frequency_max_hz`."""
        return view.frequency_max_hz
