"""The precision of operands in products and convolutions of float32 runs.

bfloat16 rounds the operands and what comes out, as `torch.autocast` does; weights, sums over steps
and the optimizer stay float32. TF32 is the device's affair (`devices.py`): it changes no code here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Precision = Literal["float32", "tf32", "bfloat16"]


class _Now:
    """Of the whole process, not of a thread: autograd computes on CUDA in a thread of its own."""

    rounding = False


@contextmanager
def rounding() -> Iterator[None]:
    """Products and convolutions of float32 within round to bfloat16."""
    before, _Now.rounding = _Now.rounding, True
    try:
        yield
    finally:
        _Now.rounding = before


def rounds(tensor: Tensor) -> bool:
    """Whether products of such tensors are rounded now."""
    return _Now.rounding and tensor.dtype is torch.float32


def convolved(
    images: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    module: torch.nn.Conv2d,
) -> Tensor:
    """`F.conv2d` with stride, padding and dilation of a module."""
    if not rounds(images):
        return F.conv2d(images, weight, bias, module.stride, module.padding, module.dilation)
    found = F.conv2d(
        images.bfloat16(),
        weight.bfloat16(),
        None,
        module.stride,
        module.padding,
        module.dilation,
    ).to(images.dtype)
    return found if bias is None else found + bias.view(1, -1, 1, 1)
