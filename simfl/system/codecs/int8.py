"""Eight-bit integers with scale factors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import IntArray
from simfl.system.codecs.base import RAW_BYTES_PER_VALUE, Codec, value_count


@dataclass(frozen=True)
class Int8(Codec):
    """Every value as an int8 times its tensor's scale factor: 1 byte, and a float32 per factor.

    `scales`, the number of tensors of the model, only affects message sizes.
    """

    scales: Annotated[int, ">= 1", "scale factors in a message, one per tensor of the model"] = 1
    rounding: Annotated[
        Literal["stochastic", "nearest"],
        "stochastic: to a random neighbour, unbiased; nearest: to the nearest value",
    ] = "stochastic"
    values: Annotated[
        bool, "whether it changes the values, too; false: only the size of messages"
    ] = True
    error_feedback: Annotated[
        bool, "clients add the coding error of an upload to their next one; uplink only"
    ] = False

    def encoded_bytes(self, raw_bytes: ArrayLike) -> IntArray:
        """One byte per value, and the scale factors."""
        values = value_count(raw_bytes)
        return np.where(values > 0, values + RAW_BYTES_PER_VALUE * self.scales, 0)
