"""Colored digits: scikit-learn's handwritten digits, coloured as Colored MNIST."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
from torch import Tensor

from simfl.learning.datasets.colored_mnist import grouped
from simfl.learning.datasets.digits import Digits
from simfl.learning.datasets.spurious import Source, Spurious, ink_in_channel


@dataclass(frozen=True)
class ColoredDigits(Spurious):
    """1,797 images of 8x8 grey values in [0, 1], in the channel of their colour; no download."""

    classes: Annotated[int, ">= 2", "<= 10", "number of classes; digits are grouped into them"] = 2
    test_share: Annotated[float, "> 0", "< 1", "share held out for testing, stratified"] = 0.2

    @property
    def labels(self) -> int:
        """`classes`."""
        return self.classes

    def sources(self, root: Path | None, generator: torch.Generator) -> tuple[Source, Source]:
        """Both parts, with randomly drawn test images."""
        seed = int(torch.randint(2**31, (1,), generator=generator))
        data = Digits(self.test_share).load(None, seed)
        train, test = (
            Source(part.inputs[:, 0], grouped(part.targets, self.classes))
            for part in (data.train, data.test)
        )
        return train, test

    def marked(self, images: Tensor, feature: Tensor) -> Tensor:
        """Grey values in the channel of their colour."""
        return ink_in_channel(images, feature, self.classes)
