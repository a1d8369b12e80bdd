"""Uniform quantisation: whole numbers times a scale factor."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Rounding = Literal["stochastic", "nearest"]


def quantised(tensor: Tensor, bits: int, rounding: Rounding, generator: torch.Generator) -> Tensor:
    """`tensor` as integers from -(2^(bits-1) - 1) to 2^(bits-1) - 1 times one scale factor.

    The largest magnitude is the largest integer. "stochastic" rounds up as often as the value is
    near the upper of its two neighbours, so that the mean is the value itself (Alistarh et al.,
    QSGD, NeurIPS 2017); the error is below one step, with "nearest" half a step at most. Zero stays
    zero. Where any value is not finite, none is.
    """
    if not tensor.numel():
        return tensor.clone()
    most = 2 ** (bits - 1) - 1
    scale = tensor.abs().amax() / most
    steps = tensor / torch.where(scale == 0, 1.0, scale)
    if rounding == "nearest":
        steps = steps.round()
    else:
        draws = torch.rand(tensor.shape, generator=generator, dtype=tensor.dtype)
        steps = (steps + draws.to(tensor.device)).floor()
    coded: Tensor = steps.clamp(-most, most) * scale
    return coded
