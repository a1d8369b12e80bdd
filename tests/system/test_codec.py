"""Message sizes."""

from __future__ import annotations

import numpy as np

from simfl.system.codec import Float32


def test_float32_is_the_identity() -> None:
    """float32 messages cross as they are, as integers."""
    encoded = Float32().encoded_bytes([0, 7, 2**40])

    np.testing.assert_array_equal(encoded, [0, 7, 2**40])
    assert encoded.dtype == np.int64
