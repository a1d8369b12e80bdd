"""A codec of one's own: values as -1, 0 or 1 times a scale factor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from numpy.typing import ArrayLike

from simfl.common.arrays import IntArray
from simfl.system.codecs.base import Codec, bit_bytes, value_count


@dataclass(frozen=True)
class Ternary(Codec):
    """Two bits a value, and a float32 for every `block` of values."""

    block: Annotated[int, ">= 1", "values with one scale factor"] = 1024

    def encoded_bytes(self, raw_bytes: ArrayLike) -> IntArray:
        """Sizes only: what is learned is not touched."""
        values = value_count(raw_bytes)
        return bit_bytes(2 * values) + 4 * -(-values // self.block)
