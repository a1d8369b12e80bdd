"""Uniform quantisation: whole numbers times a scale factor."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Rounding = Literal["stochastic", "nearest"]


def quantised(tensor: Tensor, bits: int, rounding: Rounding, generator: torch.Generator) -> Tensor:
    """`tensor` as integers from -(2^(bits-1) - 1) to 2^(bits-1) - 1, times one scale factor.

    The largest magnitude becomes the largest integer. "stochastic" rounds up with a probability
    that makes the mean equal to the value (Alistarh et al., QSGD, NeurIPS 2017); the error is below
    one step, and at most half a step with "nearest". Zero stays zero. If any value is not finite,
    no result is.
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
