"""CIFAR-10: small colour photographs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from simfl.learning.datasets.base import Data, Examples
from simfl.learning.datasets.benchmark import Benchmark
from simfl.learning.vision import torchvision


@dataclass(frozen=True)
class Cifar10(Benchmark):
    """50,000 training and 10,000 test images of 3x32x32 in [0, 1], 10 classes.

    Source: Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.
    """

    def what_to_put(self, root: str) -> str:
        """The python version of the data set."""
        return f"the unpacked cifar-10-python.tar.gz into {root}, as {root}/cifar-10-batches-py"

    def read(self, root: Path) -> Data:
        """Both parts, through torchvision, which verifies the checksums."""
        return Data(self._part(root, True), self._part(root, False), "classification", outputs=10)

    def _part(self, root: Path, train: bool) -> Examples:
        try:
            part = torchvision().datasets.CIFAR10(str(root), train=train, download=False)
        except RuntimeError as error:
            raise self.missing(
                root, f"{root}/cifar-10-batches-py is absent or incomplete"
            ) from error
        planes = np.ascontiguousarray(part.data.transpose(0, 3, 1, 2))
        return Examples(
            torch.from_numpy(planes).to(torch.float32).div_(255),
            torch.tensor(part.targets, dtype=torch.int64),
        )
