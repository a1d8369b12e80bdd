"""The size in bytes of a message with only some of a model's values.

k of n values are sent, with 4 bytes each; positions are encoded as in the sparse codecs
(`simfl.system.codecs.sparse`), those of whole hidden units with one bit per unit ("units").
"""

from __future__ import annotations

from typing import Literal

from simfl.learning.parameters import BYTES_PER_VALUE
from simfl.system.codecs.sparse import sparse_bytes

UnitPositions = Literal["none", "units", "dense", "bitmap", "index", "index32", "smallest"]


def message_bytes(values: int, kept: int, positions: UnitPositions, units: int = 0) -> int:
    """Bytes of a message with `kept` of `values` values, for `units` hidden units."""
    if positions == "units":
        return BYTES_PER_VALUE * kept + -(-units // 8)
    return int(sparse_bytes(values, kept, 8 * BYTES_PER_VALUE, positions))
