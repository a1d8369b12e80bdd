"""Colored Fashion-MNIST: clothing and footwear whose colour predicts the label better."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
from torch import Tensor

from simfl.learning.datasets.base import Examples
from simfl.learning.datasets.colored_mnist import grouped
from simfl.learning.datasets.fashion_mnist import FashionMnist
from simfl.learning.datasets.spurious import Source, Spurious, ink_in_channel

FOOTWEAR = (5, 7, 9)
"""Sandal, sneaker, ankle boot."""

BAG = 8
"""Neither clothing nor footwear: left out with two classes."""


@dataclass(frozen=True)
class ColoredFashionMnist(Spurious):
    """Fashion-MNIST, one channel per colour; two classes (54,000 and 9,000 images) or more.

    With two classes, bags are left out. As in IRM Games (Ahuja et al. 2020), bright pixels
    (> 0.5) are 1 in the channel of the image's colour, and the others keep their grey value in all
    channels. Needs Fashion-MNIST's files.
    """

    classes: Annotated[
        int, ">= 2", "<= 10", "number of classes; 2: footwear or not, more: the ten classes grouped"
    ] = 2
    clean_channels: Annotated[bool, "dark pixels are 0 in all channels"] = False

    @property
    def labels(self) -> int:
        """`classes`."""
        return self.classes

    def sources(self, root: Path | None, generator: torch.Generator) -> tuple[Source, Source]:
        """Both parts, in Fashion-MNIST's order."""
        data = FashionMnist().load(root, 0)
        return self._part(data.train), self._part(data.test)

    def marked(self, images: Tensor, feature: Tensor) -> Tensor:
        """Bright pixels in the channel of their colour."""
        bright = images > 0.5
        coloured = ink_in_channel(bright.to(images.dtype), feature, self.classes)
        if not self.clean_channels:
            coloured += torch.where(bright, 0.0, images).unsqueeze(1)
        return coloured

    def _part(self, examples: Examples) -> Source:
        images, classes = examples.inputs[:, 0], examples.targets
        if self.classes > 2:
            return Source(images, grouped(classes, self.classes))
        kept = classes != BAG
        footwear = torch.isin(classes[kept], torch.tensor(FOOTWEAR))
        return Source(images[kept], footwear.to(torch.int64))
