"""The largest changes only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from simfl.system.codecs.sparse import Positions, SparseCodec


@dataclass(frozen=True, kw_only=True)
class TopK(SparseCodec):
    """The `share` largest values by magnitude, other ones in every message (Aji, Heafield 2017)."""

    positions: Annotated[Positions, "how the receiver learns which values they are"] = "index"
