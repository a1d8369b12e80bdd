"""Convolutions of many jobs at once: the forms that a layer can take, and which one it takes.

Activations are folded, (jobs * rows, channels, height, width), and leave channels last in memory,
where pooling, and convolutions of one job, are two to four times faster on a CPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simfl.learning.kernels.convolution_matrix import (
    ConvolutionMatrix,
    convolution_matrix,
    matrix_convolution,
    output_size,
    padding_of,
)
from simfl.learning.kernels.precision import convolved
from simfl.learning.kernels.stacked_layers import Pass
from simfl.learning.kernels.stacked_product import stacked_linear

Form = Literal["matrix", "alone", "windows", "groups"]
"""matrix: one batched product (`convolution_matrix.py`). alone: the library's own convolution, one
job after the other. windows: a batched product with every window of the images. groups: all jobs as
groups of one convolution."""

WHY: dict[Form, str] = {
    "matrix": "small images: one batched product",
    "alone": "larger images on a CPU gain nothing from company",
    "windows": "few channels on an accelerator",
    "groups": "an accelerator needs company",
}
"""Why a layer has its form, for people."""

MOST_ENTRIES = 1 << 17
"""Entries of a convolution's matrix up to which it stays in a core's cache."""

MOST_WASTE = 8
"""Entries of the matrix per multiplication of the convolution up to which the matrix pays."""

FEWEST_CHANNELS = 4
"""Input channels per job below which grouped convolution goes to another kernel for few groups than
for many (seen for 1 to 3 channels)."""


def convolution_form(module: nn.Conv2d, images: Tensor) -> Form:
    """The form for images (rows, channels, ...): a static rule of their shape and device kind.

    Small images are a product with a matrix everywhere. On a CPU larger ones gain nothing from
    company; on an accelerator they need it.
    """
    _, channels, height, width = images.shape
    inputs, per_filter = channels * height * width, module.weight[0].numel()
    entries = math.prod(output_size(module, height, width)) * module.out_channels * inputs
    if entries <= MOST_ENTRIES and inputs <= MOST_WASTE * per_filter:
        return "matrix"
    if images.device.type == "cpu":
        return "alone"
    return "windows" if channels < FEWEST_CHANNELS else "groups"


class Convolution:
    """The layer of one `nn.Conv2d` that is not grouped and pads with zeros.

    `forms` are those that it has taken so far.
    """

    def __init__(self, prefix: str, module: nn.Conv2d) -> None:
        self.forms: set[Form] = set()
        self.name = prefix
        self._module = module
        self._matrices: dict[tuple[Any, ...], ConvolutionMatrix] = {}
        self._computed: dict[Form, Callable[[Tensor, Tensor, Tensor | None], Tensor]] = {
            "matrix": self._matrix,
            "alone": self._alone,
            "windows": self._windows,
            "groups": self._groups,
        }

    def __call__(self, current: Pass, activation: Tensor) -> Tensor:
        """The convolved images of all jobs, folded like the images."""
        form = convolution_form(self._module, activation)
        self.forms.add(form)
        return self._computed[form](
            activation,
            current.tensors[f"{self.name}.weight"],
            current.tensors.get(f"{self.name}.bias"),
        )

    def _matrix(self, activation: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        key = (activation.shape[1:], activation.dtype, activation.device)
        if key not in self._matrices:
            self._matrices[key] = convolution_matrix(self._module, activation)
        matrix = self._matrices[key]
        rows = activation.permute(0, 2, 3, 1).flatten(1)
        stacked = rows.view(len(weight), -1, rows.shape[1])
        outputs = matrix_convolution(stacked, weight, bias, matrix)
        placed = outputs.reshape(len(activation), matrix.height, matrix.width, -1)
        return placed.permute(0, 3, 1, 2)

    def _alone(self, activation: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        module = self._module
        one_by_one = [
            convolved(
                _channels_last(images), weight[job], None if bias is None else bias[job], module
            )
            for job, images in enumerate(activation.chunk(len(weight)))
        ]
        return one_by_one[0] if len(one_by_one) == 1 else torch.cat(one_by_one)

    def _windows(self, activation: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        module = self._module
        height, width = output_size(module, *activation.shape[2:])
        padded = F.pad(activation, padding_of(module))
        windows = F.unfold(padded, module.kernel_size, module.dilation, 0, module.stride)
        rows = windows.transpose(1, 2).reshape(len(weight), -1, windows.shape[1])
        outputs = stacked_linear(rows, weight.flatten(2), bias)
        return outputs.reshape(len(activation), height, width, -1).permute(0, 3, 1, 2)

    def _groups(self, activation: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        module, jobs = self._module, len(weight)
        images = activation.reshape(jobs, -1, *activation.shape[1:]).transpose(0, 1).flatten(1, 2)
        outputs = convolved(
            images,
            weight.flatten(0, 1),
            None if bias is None else bias.flatten(),
            module,
            groups=jobs,
        )
        return (
            outputs.view(len(outputs), jobs, -1, *outputs.shape[2:]).transpose(0, 1).flatten(0, 1)
        )


def _channels_last(images: Tensor) -> Tensor:
    """The same images, with strides that say so even where there is one channel."""
    rows, channels, height, width = images.shape
    placed = images.permute(0, 2, 3, 1).flatten(1)
    return placed.view(rows, height, width, channels).permute(0, 3, 1, 2)
