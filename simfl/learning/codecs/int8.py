"""Eight-bit integers with a scale factor per tensor."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from simfl.learning.codecs.base import ValueCodec
from simfl.learning.codecs.uniform import Rounding, quantised
from simfl.learning.parameters import Parameters

BITS = 8


@dataclass(frozen=True)
class Int8(ValueCodec):
    """Integers from -127 to 127, times a scale factor per tensor."""

    rounding: Rounding = "stochastic"
    error_feedback: bool = False

    def code(self, values: Parameters, sent: int, generator: torch.Generator) -> Parameters:
        """Every tensor quantised separately."""
        return {
            name: quantised(tensor, BITS, self.rounding, generator)
            for name, tensor in values.items()
        }
