"""The interface of every codec."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.amounts import whole_amounts
from simfl.common.arrays import IntArray
from simfl.common.contract import at_work, is_users_own, misbehaves

RAW_BYTES_PER_VALUE = 4
"""The size of a message before a codec is that of float32 values."""

ABOUT_VALUES = ("rounding", "error_feedback")
"""Keys of codecs that do not affect the size of messages."""


class Codec(ABC):
    """Base of every codec; it determines message sizes.

    Its effect on values is in `simfl.learning.codecs`, in the class of the same name; a user's own
    class may be a `ValueCodec` too. A codec without such a class, or with `values` false, only
    changes message sizes. `exact` states that values arrive unchanged, so that there is nothing to
    do.
    """

    exact: ClassVar[bool] = False
    values: bool = True

    @property
    def idle_keys(self) -> Mapping[str, str]:
        """Keys that concern values, if the codec does not act on them."""
        return {} if self.values else dict.fromkeys(ABOUT_VALUES, "values is false")

    @abstractmethod
    def encoded_bytes(self, raw_bytes: ArrayLike) -> IntArray:
        """Bytes on the wire of messages of `raw_bytes` in float32; 0 bytes stay 0."""


def encoded_bytes(codec: Codec, raw_bytes: ArrayLike) -> IntArray:
    """A codec's message sizes, checked; raises `PartMisbehaves`."""
    if not is_users_own(codec):
        return codec.encoded_bytes(raw_bytes)
    raw = np.array(raw_bytes)
    with at_work(codec, "encoded_bytes"):
        given = codec.encoded_bytes(raw.copy())
    wire = whole_amounts(given, raw.shape, codec, "encoded_bytes")
    if ((wire > 0) != (raw > 0)).any():
        asked = f"for messages of {raw.tolist()} bytes: 0 for a message of 0 bytes, more for others"
        raise misbehaves(codec, "encoded_bytes", given, asked)
    return wire


def value_count(raw_bytes: ArrayLike) -> IntArray:
    """The number of values in messages of `raw_bytes`."""
    return up_to_whole(raw_bytes, RAW_BYTES_PER_VALUE)


def bit_bytes(bits: ArrayLike) -> IntArray:
    """`bits` in whole bytes, rounded up."""
    return up_to_whole(bits, 8)


def up_to_whole(amount: ArrayLike, unit: int) -> IntArray:
    """`amount / unit`, rounded up, in exact integers."""
    return -(-np.asarray(amount, dtype=np.int64) // unit)
