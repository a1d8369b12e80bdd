"""A convolution of small images as one matrix product.

Every output of a convolution is a weighted sum of the image's values. So the whole layer is a
matrix (outputs x inputs) that contains each weight in many places, and zeros elsewhere. For small
images its product takes about as many multiplications as the convolution itself, but is one large
operation per job; and the products of many jobs are one batched product, whose bits do not depend
on the other jobs (`stacked_product.py`).

Images and outputs are flattened channels last: (height, width, channels).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from simfl.learning.kernels.stacked_product import aligned, product


@dataclass(frozen=True)
class ConvolutionMatrix:
    """The places of a convolution's weights in its matrix, for images of one size.

    weights: for every entry of the matrix, row by row, the index of its weight in the flattened
    weight tensor, or `num_weights` if it has none. entries: (most, num_weights), the entries that
    contain a weight, padded to the number of the most frequent weight; `present` is 1 for entries
    and 0 for padding. `height` and `width` are the output's.
    """

    weights: Tensor
    entries: Tensor
    present: Tensor
    height: int
    width: int

    def spread(self, weight: Tensor) -> Tensor:
        """The matrices (jobs, entries) of the weights (jobs, num_weights)."""
        return F.pad(weight, (0, 1)).index_select(1, self.weights)

    def collect(self, by_entry: Tensor) -> Tensor:
        """Gradients by weight (jobs, num_weights) from those by entry of the matrices.

        They are gathered and summed, which is deterministic on every device.
        """
        gathered = by_entry.index_select(1, self.entries.flatten())
        return gathered.view(len(by_entry), *self.entries.shape).mul_(self.present).sum(1)


def convolution_matrix(module: nn.Conv2d, images: Tensor) -> ConvolutionMatrix:
    """The matrix of an ungrouped, zero-padded convolution of images (rows, channels, ...)."""
    _, channels, height, width = images.shape
    kernel, stride, dilation = module.kernel_size, module.stride, module.dilation
    numbers = torch.arange(1, channels * height * width + 1, dtype=torch.float64)
    grid = F.pad(numbers.view(1, height, width, channels).permute(0, 3, 1, 2), padding_of(module))
    # windows[e, l]: the input (from 1) under weight e of a filter at place l, 0 for padding
    windows = F.unfold(grid, kernel, dilation, 0, stride)[0].long()
    per_filter, places = windows.shape
    filters = module.out_channels
    under = torch.full((places, 1, len(numbers) + 1), -1)
    under[:, 0].scatter_(1, windows.t(), torch.arange(per_filter).expand(places, -1))
    offsets = torch.arange(filters).view(-1, 1) * per_filter
    absent = filters * per_filter
    weights = torch.where(under < 0, absent, under + offsets)[:, :, 1:].flatten()
    counts = weights.bincount(minlength=absent)[:absent]
    found = weights.argsort(stable=True)[: int(counts.sum())]
    ranks = torch.arange(len(found)) - (counts.cumsum(0) - counts).repeat_interleave(counts)
    entries = torch.zeros(int(counts.max()), absent, dtype=torch.int64)
    entries[ranks, weights[found]] = found
    return ConvolutionMatrix(
        weights.to(images.device),
        entries.to(images.device),
        (torch.arange(len(entries)).unsqueeze(1) < counts).to(images),
        *output_size(module, height, width),
    )


def output_size(module: nn.Conv2d, height: int, width: int) -> tuple[int, int]:
    """Height and width of the output for images of this size."""
    left, right, above, below = padding_of(module)
    sizes = (height + above + below, width + left + right)
    spans = [
        step * (kernel - 1) + 1
        for kernel, step in zip(module.kernel_size, module.dilation, strict=True)
    ]
    rows, columns = (
        (size - span) // stride + 1
        for size, span, stride in zip(sizes, spans, module.stride, strict=True)
    )
    return rows, columns


def padding_of(module: nn.Conv2d) -> tuple[int, int, int, int]:
    """Zeros left, right, above and below, as `F.pad` takes them."""
    if module.padding == "valid":
        return (0, 0, 0, 0)
    if module.padding == "same":
        rows, columns = (
            step * (size - 1)
            for step, size in zip(module.dilation, module.kernel_size, strict=True)
        )
        return (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2)
    assert not isinstance(module.padding, str)
    above, left = module.padding
    return (int(left), int(left), int(above), int(above))


def matrix_convolution(
    images: Tensor, weight: Tensor, bias: Tensor | None, matrix: ConvolutionMatrix
) -> Tensor:
    """Each job's images (jobs, rows, inputs) convolved with its own weight (jobs, filters, ...).

    Returns (jobs, rows, places, filters). Not differentiable twice.
    """
    outputs: Tensor = _MatrixProduct.apply(  # type: ignore[no-untyped-call]  # untyped in torch
        images, weight.flatten(1), matrix
    )
    placed = outputs.view(*outputs.shape[:2], -1, weight.shape[1])
    return placed if bias is None else placed + bias[:, None, None, :]


class _MatrixProduct(torch.autograd.Function):
    """images (jobs, rows, inputs) times the transpose of the matrix of weight (jobs, weights)."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, weight: Tensor, matrix: ConvolutionMatrix) -> Tensor:
        images = aligned(images)
        spread = aligned(matrix.spread(weight).view(len(weight), -1, images.shape[2]))
        ctx.matrix = matrix
        ctx.save_for_backward(images, spread)
        return product(images, spread.transpose(1, 2))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        images, spread = ctx.saved_tensors
        gradient = aligned(gradient)
        to_images, to_weight, _ = ctx.needs_input_grad
        return (
            product(gradient, spread) if to_images else None,
            ctx.matrix.collect(product(gradient.transpose(1, 2), images).flatten(1))
            if to_weight
            else None,
            None,
        )
