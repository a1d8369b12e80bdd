"""Convolutions of many jobs at once: the available forms, and the choice per layer.

Activations are folded, (jobs * rows, channels, height, width), and are channels last in memory,
which makes pooling and single-job convolutions two to four times faster on a CPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from simfl.learning.kernels.convolution_matrix import (
    ConvolutionMatrix,
    convolution_matrix,
    matrix_convolution,
    output_size,
)
from simfl.learning.kernels.convolution_windows import Windows, windows_convolution
from simfl.learning.kernels.precision import convolved
from simfl.learning.kernels.stacked_layers import Pass

Form = Literal["matrix", "alone", "windows"]
"""matrix: one batched product (`convolution_matrix.py`). alone: the library's own convolution, job
after job. windows: a batched product with every window of the images (`convolution_windows.py`).
"""

WHY: dict[Form, str] = {
    "matrix": "small images: one batched product",
    "alone": "larger images on a CPU gain nothing from batching",
    "windows": "an accelerator gains from batching: one batched product",
}
"""Why a layer has its form, as shown to users."""

MOST_ENTRIES = 1 << 17
"""Up to this many entries, a convolution's matrix stays in a core's cache."""

MOST_WASTE = 8
"""Up to this many entries per multiplication of the convolution, the matrix is worthwhile."""


def convolution_form(module: nn.Conv2d, images: Tensor) -> Form:
    """The form for images (rows, channels, ...): a fixed rule of their shape and the kind of
    device.

    On a CPU, small images become a matrix product, and larger ones gain nothing from batching; on
    an accelerator batching is necessary.
    """
    if images.device.type != "cpu":
        return "windows"
    _, channels, height, width = images.shape
    inputs, per_filter = channels * height * width, module.weight[0].numel()
    entries = math.prod(output_size(module, height, width)) * module.out_channels * inputs
    small = entries <= MOST_ENTRIES and inputs <= MOST_WASTE * per_filter
    return "matrix" if small else "alone"


class Convolution:
    """The layer of one `nn.Conv2d` that is not grouped and pads with zeros.

    `forms` are those used so far. If it uses windows, `window_values` is the number of values in
    the windows of one image, and `gradient_values` that for the gradient of one image's outputs.
    """

    def __init__(self, prefix: str, module: nn.Conv2d) -> None:
        self.forms: set[Form] = set()
        self.window_values = self.gradient_values = 0
        self.name = prefix
        self._module = module
        self._matrices: dict[tuple[Any, ...], ConvolutionMatrix] = {}
        self._computed: dict[Form, Callable[[Tensor, Tensor, Tensor | None], Tensor]] = {
            "matrix": self._matrix,
            "alone": self._alone,
            "windows": self._windows,
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
        _, channels, height, width = activation.shape
        windows = Windows.of(self._module, height, width)
        self.window_values = windows.values(channels)
        self.gradient_values = windows.of_gradients(height, width).values(weight.shape[1])
        outputs = windows_convolution(activation.permute(0, 2, 3, 1), weight, bias, windows)
        return outputs.permute(0, 3, 1, 2)


def _channels_last(images: Tensor) -> Tensor:
    """The same images, with channels-last strides even if there is one channel."""
    rows, channels, height, width = images.shape
    placed = images.permute(0, 2, 3, 1).flatten(1)
    return placed.view(rows, height, width, channels).permute(0, 3, 1, 2)
