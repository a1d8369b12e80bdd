"""Colored MNIST: digits whose colour predicts the label better than their shape."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
from torch import Tensor

from simfl.learning.datasets.base import Data
from simfl.learning.datasets.mnist import Mnist
from simfl.learning.datasets.spurious import Source, Spurious, ink_in_channel


@dataclass(frozen=True)
class ColoredMnist(Spurious):
    """MNIST's 60,000 and 10,000 images with one channel per colour, pixels 0 or 1.

    Any ink counts as 1 (as in IRM Games, Ahuja et al. 2020). Needs MNIST's files.
    """

    classes: Annotated[int, ">= 2", "<= 10", "number of classes; digits are grouped into them"] = 2

    @property
    def labels(self) -> int:
        """`classes`."""
        return self.classes

    def sources(self, root: Path | None, generator: torch.Generator) -> tuple[Source, Source]:
        """Both parts, in MNIST's order."""
        data = Mnist().load(root, 0)
        return self._part(data, train=True), self._part(data, train=False)

    def marked(self, images: Tensor, feature: Tensor) -> Tensor:
        """Ink in the channel of its colour."""
        return ink_in_channel(images, feature, self.classes)

    def _part(self, data: Data, *, train: bool) -> Source:
        examples = data.train if train else data.test
        return Source(
            (examples.inputs[:, 0] > 0).to(torch.uint8), grouped(examples.targets, self.classes)
        )


def grouped(digits: Tensor, classes: int) -> Tensor:
    """Groups ten classes into fewer: neighbours together, the remainder in the last."""
    return (digits // (10 // classes)).clamp(max=classes - 1)
