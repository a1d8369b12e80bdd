"""CPU frequencies are capped, to save energy or to ask "what if"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.decisions.base import Allocation
from simfl.decisions.views import ClientView


@dataclass(frozen=True)
class Capped(Allocation):
    """The highest frequency of each device that is no higher than `frequency_hz`."""

    looks_at: ClassVar[frozenset[str] | None] = frozenset({"frequency_max_hz"})
    at_most: ClassVar[bool] = True

    frequency_hz: Annotated[
        float, "> 0", "no client computes faster, unless its lowest frequency is above"
    ]

    def decide(self, view: ClientView, rng: np.random.Generator) -> FloatArray:
        """Per client the lower of its maximum and the cap."""
        return np.minimum(view.frequency_max_hz, self.frequency_hz)
