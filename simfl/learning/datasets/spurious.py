"""Base of data sets with noisy labels and a spurious feature that predicts them better.

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
    """The original images and the class that each one shows, before any noise."""

    images: Tensor
    classes: Tensor

    def take(self, rows: Tensor) -> Source:
        """The images of `rows`, in that order."""
        return Source(self.images[rows], self.classes[rows])


@dataclass(frozen=True)
class Spurious(Dataset):
    """One environment per client; the partition `natural` deals them out.

    For an image of class y~, the label y is y~, or with probability `label_flip` the next class;
    the spurious feature z is y, or with the client's probability the next class. Rows are assigned
    to clients at random, in equal parts.
    """

    flip: Annotated[
        tuple[float, ...], ">= 0", "<= 1", "probability per client that z differs from the label"
    ] = (0.2, 0.1)
    test_flip: Annotated[
        float, ">= 0", "<= 1", "the same probability for the unseen test client"
    ] = 0.9
    label_flip: Annotated[float, ">= 0", "<= 1", "probability of a wrong label, at all clients"] = (
        0.25
    )

    def __post_init__(self) -> None:
        if not self.flip:
            raise ValueError("flip: found no client, accepted: one probability per client")

    @property
    def labels(self) -> int:
        """The number of classes."""
        return 2

    @abstractmethod
    def sources(self, root: Path | None, generator: torch.Generator) -> tuple[Source, Source]:
        """Training and test images; raises DataMissing if files are absent."""

    @abstractmethod
    def marked(self, images: Tensor, feature: Tensor) -> Tensor:
        """Images with the spurious feature z (rows,) added."""

    def load(self, root: Path | None, seed: int) -> Data:
        """Draws noise, features and owners by the seed.

        `flipped` are the test images again, each with the feature of the class after its own z.
        """
        generator = torch.Generator().manual_seed(seed)
        train, test = self.sources(root, generator)
        order = torch.randperm(len(train.classes), generator=generator)
        train, rows = train.take(order), len(order)
        if rows < len(self.flip):
            raise ValueError(f"flip: {rows} images are too few for {len(self.flip)} clients")
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
