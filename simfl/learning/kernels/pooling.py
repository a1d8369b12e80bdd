"""2x2 max pooling of images without a gradient.

torch's pooling also records the position of each maximum, image by image in scalar code. It is not
needed without a gradient: elementwise maxima of neighbouring rows, then of neighbouring columns,
take a third to an eighth of the time. The results are bitwise equal to torch's; where they might
differ, torch's pooling is used.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FEWEST_VALUES = 1 << 13
"""With fewer image values, the calls cost more than the scalar code."""

AS_INTEGERS = {
    torch.float32: torch.int32,
    torch.bfloat16: torch.int16,
    torch.float16: torch.int16,
}
"""Types for which -0.0 is found in one fast pass, as the smallest integer. 64-bit integers have no
vectorised minimum: checking them would cost as much as torch's pooling.
"""


def max_pool_2x2(images: Tensor) -> Tensor:
    """`F.max_pool2d(images, 2)`, bitwise equal: (..., height, width) to half of both.

    A maximum may return either of 0.0 and -0.0, and any NaN; torch's pooling is specific. So images
    with -0.0 or NaN are left to torch.
    """
    if torch.is_grad_enabled() or not _suits(images):
        return F.max_pool2d(images, 2)
    integers = AS_INTEGERS[images.dtype]
    if images.view(integers).amin() == torch.iinfo(integers).min:
        return F.max_pool2d(images, 2)
    height, width = (length // 2 * 2 for length in images.shape[-2:])
    rows = torch.maximum(images[..., :height:2, :width], images[..., 1:height:2, :width])
    largest = torch.maximum(rows[..., ::2], rows[..., 1::2])
    if largest.sum().isnan():  # also if inf and -inf are added, which only costs time
        return F.max_pool2d(images, 2)
    return largest


def pool_by_maxima(module: nn.Module) -> None:
    """Let every plain 2x2 `nn.MaxPool2d` in a module compute by `max_pool_2x2`.

    Only the forward method of these layers is replaced: their class, by which they are recognised,
    stays.
    """
    for layer in module.modules():
        if type(layer) is nn.MaxPool2d and _two_by_two(layer):
            # Set on this instance, so its class and all other layers remain torch's.
            layer.forward = max_pool_2x2  # type: ignore[assignment]


def _suits(images: Tensor) -> bool:
    """Whether maxima are faster, and have the memory layout of torch's result."""
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
