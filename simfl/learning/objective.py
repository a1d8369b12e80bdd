"""Objectives and reported figures: classification and regression."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as functional
from torch import Tensor

Task = Literal["classification", "regression"]


@dataclass(frozen=True)
class Objective:
    """Cross entropy (nats) for classification, squared error for regression.

    A regression's "accuracy" is the coefficient of determination R^2, so that both tasks have a
    figure that increases towards 1. It is NaN if all targets are equal, for example with a single
    example.
    """

    task: Task

    def per_example(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Loss per example: outputs (..., rows, classes), targets (..., rows) -> (..., rows).

        In a regression, outputs and targets are (..., rows, values).
        """
        if self.task == "classification":
            flat = functional.cross_entropy(
                outputs.reshape(-1, outputs.shape[-1]), targets.reshape(-1), reduction="none"
            )
            return flat.view(targets.shape)
        return ((outputs - targets) ** 2).sum(-1)

    def mean(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean of `per_example` over all rows, with fewer operations."""
        if self.task == "classification" and outputs.dim() == 2:
            return functional.cross_entropy(outputs, targets)
        return self.per_example(outputs, targets).mean()

    def accuracy(self, outputs: Tensor, targets: Tensor) -> float:
        """Share of right answers, or R^2, of outputs (rows, classes or values)."""
        if self.task == "classification":
            return float((outputs.argmax(-1) == targets).to(torch.float64).mean())
        if bool((targets == targets[:1]).all()):
            return math.nan
        residual = ((outputs - targets) ** 2).sum(dtype=torch.float64)
        spread = ((targets - targets.mean(0)) ** 2).sum(dtype=torch.float64)
        return float(1 - residual / spread)
