"""Sparse messages: few values, and the encoding of their positions.

k of n values are sent. Their positions are given by one bit per value (`bitmap`, ceil(n / 8)
bytes), by their numbers in ceil(log2 n) bits each (`index`) or in 4 bytes each (`index32`), or are
known to both ends (`none`). `dense` sends all n values, zeros included. `smallest` is the cheapest
of dense, bitmap and index, plus one byte that identifies it.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import IntArray
from simfl.common.kept_values import kept_values
from simfl.system.codecs.base import Codec, bit_bytes, value_count

Positions = Literal["smallest", "dense", "bitmap", "index", "index32", "none"]


def sparse_bytes(
    values: ArrayLike, kept: ArrayLike, value_bits: int, positions: Positions
) -> IntArray:
    """Bytes of messages with `kept` of `values` values, of `value_bits` bits each."""
    all_of_them, travelling = np.asarray(values, np.int64), np.asarray(kept, np.int64)
    if positions == "dense":
        return bit_bytes(all_of_them * value_bits)
    if positions == "smallest":
        ways: tuple[Positions, ...] = ("dense", "bitmap", "index")
        sizes = [sparse_bytes(all_of_them, travelling, value_bits, way) for way in ways]
        return np.where(all_of_them > 0, np.minimum.reduce(sizes) + 1, 0)
    sent = bit_bytes(travelling * value_bits)
    if positions == "bitmap":
        return sent + bit_bytes(all_of_them)
    if positions == "none":
        return sent
    index_bits = 32 if positions == "index32" else _bits_to_number(all_of_them)
    return sent + bit_bytes(travelling * index_bits)


def _bits_to_number(values: IntArray) -> IntArray:
    """ceil(log2 n), exact for any n that a float holds exactly; 0 for n < 2."""
    exponent = np.frexp(np.maximum(values - 1, 0).astype(float))[1]
    return np.asarray(exponent, dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class SparseCodec(Codec):
    """Base of codecs that send a share of the values."""

    share: Annotated[float, "> 0", "<= 1", "share of the values that are sent, rounded up"]
    value_bits: Annotated[int, ">= 1", "<= 32", "bits of each sent value"] = 32

    @property
    @abstractmethod
    def positions(self) -> Positions:
        """How the receiver learns the positions of the values."""

    def encoded_bytes(self, raw_bytes: ArrayLike) -> IntArray:
        """The kept values and their positions."""
        values = value_count(raw_bytes)
        kept = kept_values(self.share, values)
        return sparse_bytes(values, kept, self.value_bits, self.positions)
