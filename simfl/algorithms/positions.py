"""How many bytes a message takes in which only some of a model's values travel.

Of n values k travel, 4 bytes each, and positions are told as the sparse codecs do
(`simfl.system.codecs.sparse`); those of whole hidden units by one bit per unit ("units").
"""

from __future__ import annotations

from typing import Literal

from simfl.learning.parameters import BYTES_PER_VALUE
from simfl.system.codecs.sparse import sparse_bytes

UnitPositions = Literal["none", "units", "dense", "bitmap", "index", "index32", "smallest"]


def message_bytes(values: int, kept: int, positions: UnitPositions, units: int = 0) -> int:
    """Bytes of a message with `kept` of `values` values of a model with so many hidden units."""
    if positions == "units":
        return BYTES_PER_VALUE * kept + -(-units // 8)
    return int(sparse_bytes(values, kept, 8 * BYTES_PER_VALUE, positions))
