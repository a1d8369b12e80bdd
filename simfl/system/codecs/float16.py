"""Half precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from numpy.typing import ArrayLike

from simfl.common.arrays import IntArray
from simfl.system.codecs.base import Codec, value_count


@dataclass(frozen=True)
class Float16(Codec):
    """Every value as an IEEE 754 binary16: 2 bytes."""

    values: Annotated[
        bool, "whether it changes the values, too; false: only the size of messages"
    ] = True
    error_feedback: Annotated[
        bool, "clients add the coding error of an upload to their next one; uplink only"
    ] = False

    def encoded_bytes(self, raw_bytes: ArrayLike) -> IntArray:
        """Two bytes per value."""
        return 2 * value_count(raw_bytes)
