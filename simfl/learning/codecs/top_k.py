"""The largest values of a message, zeros elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from simfl.common.kept_values import kept_values
from simfl.learning.codecs.base import ValueCodec
from simfl.learning.codecs.uniform import quantised
from simfl.learning.parameters import Parameters

FULL, HALF = 32, 16
"""Bits per value for values that are sent unchanged, and in half precision."""


@dataclass(frozen=True, kw_only=True)
class TopK(ValueCodec):
    """The `share` largest values by magnitude, over all tensors of the message together.

    They are sent with `value_bits` bits: unchanged with 32, in half precision with 16, otherwise as
    integers times a scale factor per tensor, rounded stochastically.
    """

    share: float
    value_bits: int = FULL
    error_feedback: bool = False

    def code(self, values: Parameters, sent: int, generator: torch.Generator) -> Parameters:
        """As many values as the message has room for."""
        count = int(kept_values(self.share, sent))
        kept = largest_of_all(list(values.values()), count)
        return {
            name: self._in_bits(tensor, generator)
            for name, tensor in zip(values, kept, strict=True)
        }

    def _in_bits(self, tensor: Tensor, generator: torch.Generator) -> Tensor:
        if self.value_bits == FULL:
            return tensor
        if self.value_bits == HALF:
            return tensor.half().to(tensor.dtype)
        return quantised(tensor, self.value_bits, "stochastic", generator)


def largest_of_all(tensors: list[Tensor], count: int) -> list[Tensor]:
    """The `count` largest values by magnitude in their places, zeros elsewhere; ties by place.

    If any value is NaN, all are kept.
    """
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    if count <= 0 or not flat.numel():
        return [torch.zeros_like(tensor) for tensor in tensors]
    sizes = flat.abs()
    # `topk` does not define which of equal values it returns; the smallest magnitude is unique.
    least = torch.topk(sizes, min(count, flat.numel()), sorted=False).values.amin()
    above, level = ~(sizes <= least), sizes == least
    kept = above | (level & (level.cumsum(0) <= count - above.sum()))
    pieces = torch.split(torch.where(kept, flat, 0.0), [tensor.numel() for tensor in tensors])
    return [piece.view(like.shape) for piece, like in zip(pieces, tensors, strict=True)]
