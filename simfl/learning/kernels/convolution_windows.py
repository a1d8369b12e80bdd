"""A convolution as one product with every window of the images, for accelerators.

The windows of all jobs are copied into one tensor, and their products with each job's weights are
one batched product. So is the gradient by the images, with the windows of the outputs' gradient. A
library's own convolution with a group per job takes up to eight times as long if there are few
channels, and on some GPUs its gradients by the weights only have TF32's accuracy even if TF32 is
off (docs/scaling.md has figures).

Images and outputs are channels last: (rows, height, width, channels).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from simfl.learning.kernels.convolution_matrix import output_size, padding_of
from simfl.learning.kernels.stacked_product import aligned, product


@dataclass(frozen=True)
class Windows:
    """The windows of images of one size under a convolution's kernel.

    `padding` is left, right, above and below, negative if images are cut; `height` and `width` are
    the numbers of windows.
    """

    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]
    height: int
    width: int

    @staticmethod
    def of(module: nn.Conv2d, height: int, width: int) -> Windows:
        """The windows of a module on images of this size."""
        kernel, stride, dilation = (
            (int(pair[0]), int(pair[1]))
            for pair in (module.kernel_size, module.stride, module.dilation)
        )
        places = output_size(module, height, width)
        return Windows(kernel, stride, dilation, padding_of(module), *places)

    def values(self, channels: int) -> int:
        """The number of values in all windows of one image."""
        return self.height * self.width * self.kernel[0] * self.kernel[1] * channels

    def taken(self, images: Tensor) -> Tensor:
        """All windows of images (rows, height, width, ...), shape (rows, places, kernel *
        channels).
        """
        padded = F.pad(images, (0, 0, *self.padding)) if any(self.padding) else images
        row, down, right, channel = padded.stride()
        strides = (row, down * self.stride[0], right * self.stride[1])
        within = (down * self.dilation[0], right * self.dilation[1], channel)
        shape = (len(padded), self.height, self.width, *self.kernel, padded.shape[3])
        windows = padded.as_strided(shape, strides + within, padded.storage_offset())
        return windows.reshape(len(padded), self.height * self.width, -1)

    def of_gradients(self, height: int, width: int) -> Windows:
        """The windows of the outputs' gradient (`spread`) for the gradient of images of this size.

        An image's gradient is a convolution of the outputs' gradient with the reversed kernel.
        """
        left, _, above, _ = self.padding
        reach = [step * (size - 1) for step, size in zip(self.dilation, self.kernel, strict=True)]
        spans = self._span(0), self._span(1)
        padding = (
            reach[1] - left,
            width + left - spans[1],
            reach[0] - above,
            height + above - spans[0],
        )
        return Windows(self.kernel, (1, 1), self.dilation, padding, height, width)

    def spread(self, gradient: Tensor) -> Tensor:
        """The outputs' gradient (rows, height, width, filters), spread out by the stride."""
        if self.stride == (1, 1):
            return gradient
        rows, _, _, filters = gradient.shape
        spread = gradient.new_zeros(rows, self._span(0), self._span(1), filters)
        spread[:, :: self.stride[0], :: self.stride[1]] = gradient
        return spread

    def _span(self, axis: int) -> int:
        """The distance from the first window to the last, both included."""
        return self.stride[axis] * ((self.height, self.width)[axis] - 1) + 1


def windows_convolution(
    images: Tensor, weight: Tensor, bias: Tensor | None, windows: Windows
) -> Tensor:
    """Each job's images (jobs * rows, height, width, channels), convolved with its weight (jobs,
    ...).

    Returns (jobs * rows, height, width, filters). Not differentiable twice.
    """
    outputs: Tensor = _WindowsProduct.apply(  # type: ignore[no-untyped-call]  # untyped in torch
        images, weight, windows
    )
    if bias is not None:
        outputs = outputs + bias.unsqueeze(1)
    return outputs.reshape(len(images), windows.height, windows.width, -1)


class _WindowsProduct(torch.autograd.Function):
    """Windows (jobs, rows * places, values) times each job's weights, (values, filters)."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, weight: Tensor, windows: Windows) -> Tensor:
        taken = _by_job(windows.taken(images), weight)
        ctx.windows, ctx.shape = windows, images.shape
        ctx.save_for_backward(taken, weight)
        return product(taken, aligned(weight.permute(0, 3, 4, 2, 1).flatten(1, 3)))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        taken, weight = ctx.saved_tensors
        windows, (rows, height, width, channels) = ctx.windows, ctx.shape
        jobs, filters, _, *kernel = weight.shape
        gradient = aligned(gradient)
        to_images = to_weight = None
        if ctx.needs_input_grad[0]:
            placed = gradient.reshape(rows, windows.height, windows.width, filters)
            around = windows.of_gradients(height, width).taken(windows.spread(placed))
            turned = weight.flip(3, 4).permute(0, 3, 4, 1, 2).flatten(1, 3)
            to_images = product(_by_job(around, weight), aligned(turned)).reshape(ctx.shape)
        if ctx.needs_input_grad[1]:
            found = product(gradient.transpose(1, 2), taken)
            to_weight = found.reshape(jobs, filters, *kernel, channels).permute(0, 1, 4, 2, 3)
        return to_images, to_weight, None


def _by_job(windows: Tensor, weight: Tensor) -> Tensor:
    """Windows (jobs * rows, places, values) as (jobs, rows * places, values)."""
    return aligned(windows.reshape(len(weight), -1, windows.shape[2]))
