"""Logistic or linear regression."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import nn

from simfl.learning.models.base import Model


@dataclass(frozen=True)
class Linear(Model):
    """One affine map of the flattened input: softmax regression, or linear regression."""

    def build(self, input_shape: tuple[int, ...], outputs: int) -> nn.Module:
        """`outputs * (inputs + 1)` parameters."""
        return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(input_shape), outputs))
