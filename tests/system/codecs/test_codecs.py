"""Message sizes, exact to the byte."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simfl.system.codecs.base import Codec
from simfl.system.codecs.float16 import Float16
from simfl.system.codecs.float32 import Float32
from simfl.system.codecs.int8 import Int8
from simfl.system.codecs.sparse import Positions, sparse_bytes
from simfl.system.codecs.sparse_mask import SparseMask
from simfl.system.codecs.top_k import TopK

LENET_BYTES = 4 * 61_706
ALL: list[Codec] = [
    Float32(),
    Float16(),
    Int8(),
    Int8(scales=10),
    TopK(share=0.01),
    TopK(share=0.1, value_bits=16, positions="smallest"),
    SparseMask(share=0.5),
    SparseMask(share=0.25, positions="none"),
]


def test_float32_is_the_identity() -> None:
    """float32 messages keep their sizes, as integers."""
    encoded = Float32().encoded_bytes([0, 7, 2**40])

    np.testing.assert_array_equal(encoded, [0, 7, 2**40])
    assert encoded.dtype == np.int64


@pytest.mark.parametrize(
    ("codec", "size"),
    [
        (Float32(), 246_824),
        (Float16(), 123_412),
        (Int8(), 61_706 + 4),
        (Int8(scales=10), 61_706 + 40),
        # 618 values of 4 bytes, each with its number in 16 bits or in 4 bytes
        (TopK(share=0.01), 618 * 4 + 618 * 2),
        (TopK(share=0.01, positions="index32"), 618 * 8),
        # a bit per value is ceil(61706 / 8) = 7714 bytes
        (TopK(share=0.01, positions="bitmap"), 618 * 4 + 7714),
        (SparseMask(share=0.5), 30_853 * 4 + 7714),
        (SparseMask(share=0.5, positions="none"), 30_853 * 4),
        (SparseMask(share=0.5, value_bits=8), 30_853 + 7714),
        (SparseMask(share=0.5, positions="dense"), 246_824),
        (TopK(share=0.01, positions="smallest"), 618 * 6 + 1),
        (SparseMask(share=0.5, positions="smallest"), 30_853 * 4 + 7714 + 1),
        (SparseMask(share=1.0, positions="smallest"), 246_824 + 1),
    ],
)
def test_lenet_by_hand(codec: Codec, size: int) -> None:
    """LeNet-5 has 61,706 values, so a value's number takes 16 bits."""
    assert int(codec.encoded_bytes(LENET_BYTES)) == size


@pytest.mark.parametrize("codec", ALL)
def test_no_bytes_stay_none(codec: Codec) -> None:
    """An empty message stays empty, beside messages that are not."""
    encoded = codec.encoded_bytes([0, LENET_BYTES, 0])

    assert encoded.dtype == np.int64
    assert list(encoded > 0) == [False, True, False]


@pytest.mark.parametrize("codec", ALL)
def test_larger_models_never_take_fewer_bytes(codec: Codec) -> None:
    """Sizes grow with the number of values."""
    assert (np.diff(codec.encoded_bytes(4 * np.arange(3000))) >= 0).all()


@pytest.mark.parametrize(
    ("share", "values", "kept"), [(0.1, 30, 3), (0.1, 31, 4), (1e-3, 1, 1), (1e-9, 9, 1)]
)
def test_a_share_is_rounded_up_to_whole_values(share: float, values: int, kept: int) -> None:
    """0.1 of 30 is 3, though 0.1 * 30 is a little more in floating point."""
    codec = SparseMask(share=share, positions="none")

    assert int(codec.encoded_bytes(4 * values)) == 4 * kept


@given(values=st.integers(1, 2**40), share=st.floats(0, 1), bits=st.sampled_from([1, 4, 8, 16, 32]))
def test_index_sizes_in_exact_integers(values: int, share: float, bits: int) -> None:
    """Each encoding against Python's own integers; the smallest is the smallest of the three."""
    kept = min(values, int(share * values))
    number_bits = (values - 1).bit_length()
    payload = -(-kept * bits // 8)
    expected: dict[Positions, int] = {
        "dense": -(-values * bits // 8),
        "bitmap": payload + -(-values // 8),
        "index": payload + -(-kept * number_bits // 8),
        "index32": payload + 4 * kept,
        "none": payload,
    }

    found = {way: int(sparse_bytes(values, kept, bits, way)) for way in expected}
    smallest = int(sparse_bytes(values, kept, bits, "smallest"))

    assert found == expected
    assert smallest == 1 + min(expected["dense"], expected["bitmap"], expected["index"])
    assert number_bits == math.ceil(math.log2(values)) or values > 2**32
