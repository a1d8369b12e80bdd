"""A model as anyone would write it for PyTorch; simfl is not imported."""

from __future__ import annotations

import math

import torch
from torch import nn


class NarrowNet(nn.Module):
    """Two layers; `input_shape` and `outputs` are filled in from the data, `width` from YAML."""

    def __init__(self, input_shape: tuple[int, ...], outputs: int, width: int = 16) -> None:
        super().__init__()
        self.hidden = nn.Linear(math.prod(input_shape), width)
        self.head = nn.Linear(width, outputs)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """(rows, *input_shape) -> (rows, outputs)."""
        return self.head(torch.relu(self.hidden(inputs.flatten(1))))
