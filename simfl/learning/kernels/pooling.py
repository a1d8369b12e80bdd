"""2x2 max pooling of images without a gradient.

Torch's pooling also remembers which place was the largest, image by image in scalar code. Without a
gradient nobody reads that, and maxima of neighbouring rows, then of neighbouring columns, element
by element, take a third to an eighth of the time. The bits are torch's: where
they could differ, torch computes them.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FEWEST_VALUES = 1 << 13
"""Values of the images below which a few calls cost more than the scalar code does."""

AS_INTEGERS = {
    torch.float32: torch.int32,
    torch.bfloat16: torch.int16,
    torch.float16: torch.int16,
}
"""Types whose -0.0 is found in one fast pass, as their smallest integer. That of 64 bits has no
vectorised minimum: looking for it would cost as much as torch's pooling."""


def max_pool_2x2(images: Tensor) -> Tensor:
    """`F.max_pool2d(images, 2)`, to the last bit: (..., height, width) to half of both.

    Maxima leave open which of 0.0 and -0.0, and which NaN, they return; torch's pooling does not:
    images with -0.0 or NaN are left to it.
    """
    if torch.is_grad_enabled() or not _suits(images):
        return F.max_pool2d(images, 2)
    integers = AS_INTEGERS[images.dtype]
    if images.view(integers).amin() == torch.iinfo(integers).min:
        return F.max_pool2d(images, 2)
    height, width = (length // 2 * 2 for length in images.shape[-2:])
    rows = torch.maximum(images[..., :height:2, :width], images[..., 1:height:2, :width])
    largest = torch.maximum(rows[..., ::2], rows[..., 1::2])
    if largest.sum().isnan():  # also where it adds up inf and -inf, which only costs time
        return F.max_pool2d(images, 2)
    return largest


def pool_by_maxima(module: nn.Module) -> None:
    """Have every plain 2x2 `nn.MaxPool2d` in a module compute by `max_pool_2x2`.

    Only what the layers compute with is exchanged: their class, by which others know them, stays.
    """
    for layer in module.modules():
        if type(layer) is nn.MaxPool2d and _two_by_two(layer):
            # The one layer's own, so that its class and everybody else's layers stay torch's.
            layer.forward = max_pool_2x2  # type: ignore[assignment]


def _suits(images: Tensor) -> bool:
    """Whether maxima are faster, and lie in memory as torch's own result would."""
    return (
        images.device.type == "cpu"
        and images.dtype in AS_INTEGERS
        and images.numel() >= FEWEST_VALUES
        and images.dim() in (3, 4)
        and min(images.shape[-2:]) >= 2
        and (
            images.is_contiguous()
            or (images.dim() == 4 and images.is_contiguous(memory_format=torch.channels_last))
        )
    )


def _two_by_two(layer: nn.MaxPool2d) -> bool:
    plain = layer.padding in (0, (0, 0)) and layer.dilation in (1, (1, 1))
    square = all(pair in (2, (2, 2), [2, 2]) for pair in (layer.kernel_size, layer.stride))
    return plain and square and not layer.ceil_mode and not layer.return_indices
