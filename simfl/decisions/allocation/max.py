"""Every client computes as fast as it can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.decisions.base import Allocation
from simfl.decisions.views import ClientView


@dataclass(frozen=True)
class Max(Allocation):
    """The highest frequency of each device."""

    looks_at: ClassVar[frozenset[str] | None] = frozenset({"frequency_max_hz"})
    full_speed: ClassVar[bool] = True

    def decide(self, view: ClientView, rng: np.random.Generator) -> FloatArray:
        """`view.frequency_max_hz`."""
        return view.frequency_max_hz
