"""The images of FedSAC's experiments, shifted and scaled as in its authors' earlier code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
import torch

from simfl.learning.datasets.base import Data, Dataset, Examples
from simfl.learning.datasets.cifar10 import Cifar10
from simfl.learning.datasets.fashion_mnist import FashionMnist
from simfl.learning.datasets.npz import Npz

CIFAR10_MEAN, CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


@dataclass(frozen=True)
class _Scaled(Dataset):
    """A data set, each channel less its mean and in units of its standard deviation."""

    means: ClassVar[Sequence[float]]
    deviations: ClassVar[Sequence[float]]

    training_rows: Annotated[int | None, ">= 1", "the first ones; null keeps all"] = None

    def load(self, root: Path | None, seed: int) -> Data:
        """As the data set itself, scaled."""
        data = super().load(root, seed)  # type: ignore[safe-super]  # the data set comes after
        train = data.train
        if self.training_rows is not None:
            train = train.take(np.arange(min(self.training_rows, len(train))))
        return replace(data, train=self._scaled(train), test=self._scaled(data.test))

    def _scaled(self, examples: Examples) -> Examples:
        mean, deviation = (
            torch.tensor(one, dtype=examples.inputs.dtype).view(-1, 1, 1)
            for one in (self.means, self.deviations)
        )
        return replace(examples, inputs=(examples.inputs - mean) / deviation)


@dataclass(frozen=True)
class ScaledFashionMnist(_Scaled, FashionMnist):
    """Fashion-MNIST, with the mean and deviation of MNIST, as the code of FedAVE has it."""

    means: ClassVar[Sequence[float]] = (0.1307,)
    deviations: ClassVar[Sequence[float]] = (0.3081,)


@dataclass(frozen=True)
class ScaledCifar10(_Scaled, Cifar10):
    """CIFAR-10."""

    means: ClassVar[Sequence[float]] = CIFAR10_MEAN
    deviations: ClassVar[Sequence[float]] = CIFAR10_STD


@dataclass(frozen=True)
class ScaledCifar10Subset(_Scaled, Npz):
    """Images of CIFAR-10 in a .npz file."""

    means: ClassVar[Sequence[float]] = CIFAR10_MEAN
    deviations: ClassVar[Sequence[float]] = CIFAR10_STD
