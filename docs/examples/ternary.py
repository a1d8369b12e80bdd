"""A codec of one's own: values as -1, 0 or 1 times a scale factor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from simfl.plugins import Codec, IntArray, Parameters, ValueCodec, bit_bytes, value_count


@dataclass(frozen=True)
class Ternary(Codec, ValueCodec):
    """Two bits a value, and a float32 for every `block` of values of a message."""

    block: Annotated[int, ">= 1", "values with one scale factor"] = 1024
    values: bool = True
    error_feedback: bool = False

    def encoded_bytes(self, raw_bytes: ArrayLike) -> IntArray:
        """What crosses the link."""
        values = value_count(raw_bytes)
        return bit_bytes(2 * values) + 4 * -(-values // self.block)

    def code(self, values: Parameters, sent: int, generator: torch.Generator) -> Parameters:
        """What the receiver has: each value is sent as often as it is large (TernGrad)."""
        flat = torch.cat([tensor.flatten() for tensor in values.values()])
        coded = torch.cat([self._coded(block, generator) for block in flat.split(self.block)])
        pieces = coded.split([tensor.numel() for tensor in values.values()])
        shaped = zip(values.items(), pieces, strict=True)
        return {name: piece.view_as(like) for (name, like), piece in shaped}

    def _coded(self, block: Tensor, generator: torch.Generator) -> Tensor:
        scale = block.abs().max()
        draws = torch.rand(block.shape, generator=generator, dtype=block.dtype).to(block.device)
        return torch.where(draws * scale < block.abs(), block.sign() * scale, 0.0 * block)
