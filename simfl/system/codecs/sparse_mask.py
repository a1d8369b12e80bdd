"""The values that a mask keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from simfl.system.codecs.sparse import Positions, SparseCodec


@dataclass(frozen=True, kw_only=True)
class SparseMask(SparseCodec):
    """The values that a mask keeps; a mask known to both ends needs no `positions`.

    It only determines message sizes: the algorithm does the masking.
    """

    positions: Annotated[Positions, "encoding of the positions of the values"] = "bitmap"
