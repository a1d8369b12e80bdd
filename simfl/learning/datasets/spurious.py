"""Labels with noise, and a feature that predicts them better, but differently at every client.

The generator of Invariant Risk Minimization's Colored MNIST (Arjovsky et al., arXiv 1907.02893),
with more clients and classes (Choe et al., arXiv 2004.05007) and as FL Games (arXiv 2211.00184)
uses it.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from simfl.learning.datasets.base import Data, Dataset, Examples


@dataclass(frozen=True)
class Source:
    """Images as they come and the class that each one shows, before any noise."""

    images: Tensor
    classes: Tensor

    def take(self, rows: Tensor) -> Source:
        """The images of `rows`, in that order."""
        return Source(self.images[rows], self.classes[rows])


@dataclass(frozen=True)
class Spurious(Dataset):
    """One environment per client; the partition `natural` deals them out.

    Of an image that shows class y~, the label y is y~, or with probability `label_flip` the next
    class; the spurious feature z is y, or with the client's probability the next class. Rows are
    dealt at random in equal parts.
    """

    flip: Annotated[
        tuple[float, ...], ">= 0", "<= 1", "one per client: how often z is not the label's"
    ] = (0.2, 0.1)
    test_flip: Annotated[float, ">= 0", "<= 1", "the same of the unseen test client"] = 0.9
    label_flip: Annotated[float, ">= 0", "<= 1", "how often a label is wrong, everywhere"] = 0.25

    def __post_init__(self) -> None:
        if not self.flip:
            raise ValueError("flip: found no client, accepted: one probability per client")

    @property
    def labels(self) -> int:
        """How many classes there are."""
        return 2

    @abstractmethod
    def sources(self, root: Path | None, generator: torch.Generator) -> tuple[Source, Source]:
        """Training and test images; raises DataMissing where files are absent."""

    @abstractmethod
    def marked(self, images: Tensor, feature: Tensor) -> Tensor:
        """Images with the spurious feature z (rows,) put on."""

    def load(self, root: Path | None, seed: int) -> Data:
        """Draw noise, features and owners by the seed.

        `flipped` are the test images again, each with the feature of the class after its own z.
        """
        generator = torch.Generator().manual_seed(seed)
        train, test = self.sources(root, generator)
        order = torch.randperm(len(train.classes), generator=generator)
        train, rows = train.take(order), len(order)
        if rows < len(self.flip):
            raise ValueError(f"flip: {rows} images cannot be dealt to {len(self.flip)} clients")
        owners = torch.from_numpy(
            np.repeat(
                np.arange(len(self.flip)),
                [len(part) for part in np.array_split(np.arange(rows), len(self.flip))],
            )
        )
        labels, features = self._drawn(train.classes, torch.tensor(self.flip)[owners], generator)
        at_test = torch.full((len(test.classes),), self.test_flip)
        test_labels, test_features = self._drawn(test.classes, at_test, generator)
        return Data(
            Examples(self.marked(train.images, features), labels),
            Examples(self.marked(test.images, test_features), test_labels),
            "classification",
            self.labels,
            owners.numpy(),
            flipped=Examples(
                self.marked(test.images, (test_features + 1) % self.labels), test_labels
            ),
        )

    def _drawn(
        self, classes: Tensor, flip: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Labels and spurious features (rows,) of these true classes."""
        wrong, other = torch.rand(2, len(classes), generator=generator)
        labels = (classes + (wrong < self.label_flip)) % self.labels
        return labels, (labels + (other < flip)) % self.labels


def ink_in_channel(ink: Tensor, feature: Tensor, labels: int) -> Tensor:
    """Images (rows, height, width) in the channel of their colour, of `labels` channels.

    Of two colours, 1 is channel 0 ("red") and 0 is channel 1; of more, colour c is channel c.
    """
    channel = 1 - feature if labels == 2 else feature
    coloured = ink.new_zeros(len(ink), labels, *ink.shape[1:])
    coloured[torch.arange(len(ink)), channel] = ink
    return coloured
