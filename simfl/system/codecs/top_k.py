"""The largest changes only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from simfl.system.codecs.sparse import Positions, SparseCodec


@dataclass(frozen=True, kw_only=True)
class TopK(SparseCodec):
    """The `share` largest values of a message by magnitude, zeros elsewhere (Aji, Heafield 2017).

    They are sent with `value_bits` bits: unchanged with 32, in half precision with 16, otherwise as
    integers times a scale factor per tensor (which does not count in the size).
    """

    positions: Annotated[Positions, "encoding of the positions of the values"] = "index"
    values: Annotated[
        bool, "whether it changes the values, too; false: only the size of messages"
    ] = True
    error_feedback: Annotated[
        bool, "clients add the coding error of an upload to their next one; uplink only"
    ] = False

    def __post_init__(self) -> None:
        if self.values and self.value_bits == 1:
            raise ValueError("value_bits: one bit is only a sign; accepted: 2 or more")
        if self.positions == "none":
            raise ValueError(
                "positions: found none, but the receiver cannot know which values are the largest;"
                " accepted: smallest, dense, bitmap, index, index32 (sparse_mask has a mask that"
                " both ends know)"
            )
