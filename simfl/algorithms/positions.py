"""How many bytes a message takes in which only some of a model's values travel.

Of n values k travel, 4 bytes each. Which ones they are is known to both ends ("none"), or told by
one bit per hidden unit ("units"), by one bit per value ("bitmap"), by their numbers in ceil(log2 n)
bits each ("index") or in 4 bytes each ("index32"). "dense" sends all n, zeros included. "smallest"
is the cheapest of dense, bitmap and index, and one byte that says which.
"""

from __future__ import annotations

from typing import Literal

from simfl.learning.parameters import BYTES_PER_VALUE

SparsePositions = Literal["none", "dense", "bitmap", "index", "index32", "smallest"]
Positions = Literal["none", "units", "dense", "bitmap", "index", "index32", "smallest"]


def message_bytes(values: int, kept: int, positions: Positions, units: int = 0) -> int:
    """Bytes of a message with `kept` of `values` values of a model with so many hidden units.

    A message without a value has no bytes.
    """
    if kept == 0:
        return 0
    if positions == "dense":
        return BYTES_PER_VALUE * values
    if positions == "smallest":
        return 1 + min(message_bytes(values, kept, way) for way in ("dense", "bitmap", "index"))
    bits = {
        "none": 0,
        "units": units,
        "bitmap": values,
        "index": kept * (values - 1).bit_length(),
        "index32": kept * 32,
    }[positions]
    return BYTES_PER_VALUE * kept + -(-bits // 8)
