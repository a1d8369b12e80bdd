"""The largest changes only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from simfl.system.codecs.sparse import Positions, SparseCodec


@dataclass(frozen=True, kw_only=True)
class TopK(SparseCodec):
    """The `share` largest values of a message by magnitude, zeros elsewhere (Aji, Heafield 2017).

    They travel in `value_bits` bits: 32 as they are, 16 in half precision, otherwise as integers
    times a scale factor per tensor (of which the size has none).
    """

    positions: Annotated[Positions, "how the receiver learns which values they are"] = "index"
    values: Annotated[bool, "act on the values too; false sizes messages only"] = True
    error_feedback: Annotated[
        bool, "clients add what an upload could not say to their next one; uplink only"
    ] = False

    def __post_init__(self) -> None:
        if self.values and self.value_bits == 1:
            raise ValueError("value_bits: one bit tells a sign only; accepted: 2 or more")
