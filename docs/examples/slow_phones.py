"""An allocation of one's own: phones save energy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from simfl.plugins import Allocation, ClientView, FloatArray


@dataclass(frozen=True)
class SlowPhones(Allocation):
    """Phones compute `share` of the way up their clock range, all others at the top."""

    share: Annotated[float, ">= 0", "<= 1", "0 is the lowest clock, 1 the highest"] = 0.5

    def decide(self, view: ClientView, rng: np.random.Generator) -> FloatArray:
        """Hz per client; the device rounds it to a clock that it has."""
        low, high = view.frequency_min_hz, view.frequency_max_hz
        return np.where(view.device_class == "phone", low + self.share * (high - low), high)
