"""Eight-bit integers with scale factors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import IntArray
from simfl.system.codecs.base import RAW_BYTES_PER_VALUE, Codec, value_count


@dataclass(frozen=True)
class Int8(Codec):
    """Every value as an int8 times a scale factor: 1 byte, and a float32 per scale factor."""

    scales: Annotated[int, ">= 1", "scale factors in a message, one per tensor of the model"] = 1

    def encoded_bytes(self, raw_bytes: ArrayLike) -> IntArray:
        """One byte a value, and the scale factors."""
        values = value_count(raw_bytes)
        return np.where(values > 0, values + RAW_BYTES_PER_VALUE * self.scales, 0)
