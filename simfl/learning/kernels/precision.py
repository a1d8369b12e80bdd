"""The precision of operands in products and convolutions of float32 runs.

bfloat16 rounds operands and results, like `torch.autocast`; weights, sums over steps and the
optimizer stay float32. TF32 is a setting of the device (`devices.py`) and changes no code here.
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
    """For the whole process, not per thread: on CUDA, autograd computes in a thread of its own."""

    rounding = False


@contextmanager
def rounding() -> Iterator[None]:
    """Round products and convolutions of float32 within the block to bfloat16."""
    before, _Now.rounding = _Now.rounding, True
    try:
        yield
    finally:
        _Now.rounding = before


def rounds(tensor: Tensor) -> bool:
    """Whether products of such tensors are currently rounded."""
    return _Now.rounding and tensor.dtype is torch.float32


def convolved(
    images: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    module: torch.nn.Conv2d,
) -> Tensor:
    """`F.conv2d` with the stride, padding and dilation of a module."""
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
