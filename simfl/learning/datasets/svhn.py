"""SVHN: house numbers in street views."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from simfl.learning.datasets.base import Data, Examples
from simfl.learning.datasets.benchmark import Benchmark
from simfl.learning.vision import torchvision


@dataclass(frozen=True)
class Svhn(Benchmark):
    """73,257 training and 26,032 test images of 3x32x32 in [0, 1], 10 classes of unequal size.

    Source: Netzer et al., "Reading Digits in Natural Images with Unsupervised Feature Learning",
    NIPS workshop, 2011 (cropped digits).
    """

    def what_to_put(self, root: str) -> str:
        """The two files of cropped digits."""
        return f"train_32x32.mat and test_32x32.mat into {root}"

    def read(self, root: Path) -> Data:
        """Both parts, through torchvision, which verifies the checksums."""
        train, test = self._part(root, "train"), self._part(root, "test")
        return Data(train, test, "classification", outputs=10)

    def _part(self, root: Path, split: str) -> Examples:
        try:
            part = torchvision().datasets.SVHN(str(root), split=split, download=False)
        except RuntimeError as error:
            raise self.missing(root, f"{root}/{split}_32x32.mat is absent or damaged") from error
        return Examples(
            torch.from_numpy(part.data).to(torch.float32).div_(255),
            torch.as_tensor(part.labels, dtype=torch.int64),
        )
