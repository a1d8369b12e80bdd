"""The interface of every codec."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.amounts import whole_amounts
from simfl.common.arrays import IntArray
from simfl.common.contract import at_work, is_users_own, misbehaves

RAW_BYTES_PER_VALUE = 4
"""Messages are sized as float32 before a codec sees them."""


class Codec(ABC):
    """Base of every codec; it sizes messages, the values are the learning room's matter."""

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
