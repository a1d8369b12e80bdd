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

    `scales` sizes messages only: how many tensors the model has.
    """

    scales: Annotated[int, ">= 1", "scale factors in a message, one per tensor of the model"] = 1
    rounding: Annotated[
        Literal["stochastic", "nearest"],
        "to a neighbour by chance, right on average; or to the nearest",
    ] = "stochastic"
    values: Annotated[bool, "act on the values too; false sizes messages only"] = True
    error_feedback: Annotated[
        bool, "clients add what an upload could not say to their next one; uplink only"
    ] = False

    def encoded_bytes(self, raw_bytes: ArrayLike) -> IntArray:
        """One byte a value, and the scale factors."""
        values = value_count(raw_bytes)
        return np.where(values > 0, values + RAW_BYTES_PER_VALUE * self.scales, 0)
