"""A data set of one's own: two spirals in the plane."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch

from simfl.plugins import Data, Dataset, Examples


@dataclass(frozen=True)
class Spirals(Dataset):
    """Points on two interleaved spirals, 2 classes; `root` would be the folder of files to read."""

    examples: Annotated[int, ">= 2", "training rows"] = 600
    noise: Annotated[float, ">= 0", "standard deviation of the points around the spirals"] = 0.05

    def load(self, root: Path | None, seed: int) -> Data:
        """Training rows, and a third as many for testing; the same seed gives the same rows."""
        generator = torch.Generator().manual_seed(seed)
        rows = self.examples + self.examples // 3
        labels = torch.randint(2, (rows,), generator=generator)
        radius = torch.rand(rows, generator=generator)
        angle = 3.0 * radius + math.pi * labels
        points = radius[:, None] * torch.stack([angle.cos(), angle.sin()], dim=1)
        points += self.noise * torch.randn(rows, 2, generator=generator)
        everything = Examples(points, labels)
        train = everything.take(torch.arange(self.examples))
        test = everything.take(torch.arange(self.examples, rows))
        return Data(train, test, "classification", outputs=2)
