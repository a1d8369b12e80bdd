"""Half precision."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from simfl.learning.codecs.base import ValueCodec
from simfl.learning.parameters import Parameters


@dataclass(frozen=True)
class Float16(ValueCodec):
    """Rounds to the nearest IEEE 754 binary16 number; beyond 65504, to infinity."""

    error_feedback: bool = False

    def code(self, values: Parameters, sent: int, generator: torch.Generator) -> Parameters:
        """Every value rounded."""
        return {name: tensor.half().to(tensor.dtype) for name, tensor in values.items()}
