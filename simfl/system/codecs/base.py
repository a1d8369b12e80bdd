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
"""Messages are sized as float32 before a codec sees them."""

ABOUT_VALUES = ("rounding", "error_feedback")
"""Keys of codecs that no message's size goes by."""


class Codec(ABC):
    """Base of every codec; it sizes messages.

    What it does to their values is the learning room's matter: the class of the same name in
    `simfl.learning.codecs`, or the part's own class if that is a `ValueCodec` too. A codec without
    one only sizes messages, and so does one with `values` false. `exact` says that every value
    arrives as it was sent, so that there is nothing to do.
    """

    exact: ClassVar[bool] = False
    values: bool = True

    @property
    def idle_keys(self) -> Mapping[str, str]:
        """What is about values, where the codec does not touch them."""
        return {} if self.values else dict.fromkeys(ABOUT_VALUES, "values is false")

    @abstractmethod
    def encoded_bytes(self, raw_bytes: ArrayLike) -> IntArray:
        """Bytes on the wire of messages that take `raw_bytes` as float32; no bytes stay none."""


def encoded_bytes(codec: Codec, raw_bytes: ArrayLike) -> IntArray:
    """What a codec makes of messages, held to its contract; raises `PartMisbehaves`."""
    if not is_users_own(codec):
        return codec.encoded_bytes(raw_bytes)
    raw = np.array(raw_bytes)
    with at_work(codec, "encoded_bytes"):
        given = codec.encoded_bytes(raw.copy())
    wire = whole_amounts(given, raw.shape, codec, "encoded_bytes")
    if ((wire > 0) != (raw > 0)).any():
        raise misbehaves(codec, "encoded_bytes", given, "0 bytes only where there is no message")
    return wire


def value_count(raw_bytes: ArrayLike) -> IntArray:
    """How many values messages of `raw_bytes` hold."""
    return up_to_whole(raw_bytes, RAW_BYTES_PER_VALUE)


def bit_bytes(bits: ArrayLike) -> IntArray:
    """Whole bytes that `bits` fill."""
    return up_to_whole(bits, 8)


def up_to_whole(amount: ArrayLike, unit: int) -> IntArray:
    """`amount / unit`, rounded up, in exact integers."""
    return -(-np.asarray(amount, dtype=np.int64) // unit)
