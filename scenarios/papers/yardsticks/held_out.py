"""A part of the training images in place of the test images: what learning rates are chosen on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from simfl.learning.datasets.base import Data, Dataset
from simfl.learning.datasets.digits import Digits
from simfl.learning.datasets.fashion_mnist import FashionMnist
from simfl.learning.datasets.mnist import Mnist
from simfl.learning.datasets.stratified import stratified_split

SHARE = 1 / 6
"""As many of MNIST's training images as there are test images."""

DATA: dict[str, type[Dataset]] = {
    "digits": Digits,
    "mnist": Mnist,
    "fashion_mnist": FashionMnist,
}


@dataclass(frozen=True)
class HeldOut(Dataset):
    """The training examples of a data set, a sixth of every class to be tested on."""

    of: Literal["digits", "mnist", "fashion_mnist"]

    def load(self, root: Path | None, seed: int) -> Data:
        """The test examples are never seen."""
        data = DATA[self.of]().load(root, seed)
        train, held = stratified_split(data.train, SHARE, seed)
        return replace(data, train=train, test=held)
