"""The three transforms that Flower's quick start uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch


class Compose:
    """One after another."""

    def __init__(self, steps: Sequence[Callable[[Any], Any]]) -> None:
        self._steps = steps

    def __call__(self, image: Any) -> Any:
        for step in self._steps:
            image = step(image)
        return image


class ToTensor:
    """Bytes (rows, columns, channels) to floats (channels, rows, columns)."""

    def __call__(self, image: Any) -> torch.Tensor:
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255.0


class Normalize:
    """Minus the mean, over the deviation, of each channel."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        self._mean, self._std = (torch.tensor(one)[:, None, None] for one in (mean, std))

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        return (image - self._mean) / self._std
