"""The values that a mask keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from simfl.system.codecs.sparse import Positions, SparseCodec


@dataclass(frozen=True, kw_only=True)
class SparseMask(SparseCodec):
    """What a mask keeps of a model; a mask that both ends have needs no `positions`.

    It sizes messages only: what is masked is the algorithm's matter.
    """

    positions: Annotated[Positions, "how the receiver learns which values they are"] = "bitmap"
