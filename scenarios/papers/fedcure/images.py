"""The images of FedCure's experiments: colour in [-1, 1], and a few labels only where asked.

[-1, 1] is what the PyTorch tutorial feeds the network that the paper's description fits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np

from simfl.learning.datasets.base import Data, Dataset, Examples
from simfl.learning.datasets.cifar10 import Cifar10
from simfl.learning.datasets.cinic10 import Cinic10
from simfl.learning.datasets.digits import Digits
from simfl.learning.datasets.mnist import Mnist
from simfl.learning.datasets.npz import Npz
from simfl.learning.datasets.svhn import Svhn


@dataclass(frozen=True)
class _FewLabels(Dataset):
    """A data set of which only the first labels are kept, in training and in testing."""

    labels: Annotated[int | None, ">= 2", "how many; null keeps all"] = None

    def load(self, root: Path | None, seed: int) -> Data:
        """As the data set itself, without the examples of the other labels."""
        data = super().load(root, seed)  # type: ignore[safe-super]  # the data set comes after
        return replace(data, train=self._prepared(data.train), test=self._prepared(data.test))

    def _prepared(self, examples: Examples) -> Examples:
        if self.labels is None:
            return examples
        return examples.take(np.flatnonzero(examples.targets.numpy() < self.labels))


@dataclass(frozen=True)
class _Centred(_FewLabels):
    """The same in [-1, 1]."""

    def _prepared(self, examples: Examples) -> Examples:
        kept = super()._prepared(examples)
        return replace(kept, inputs=2.0 * kept.inputs - 1.0)


@dataclass(frozen=True)
class FewDigits(_FewLabels, Digits):
    """scikit-learn's digits."""


@dataclass(frozen=True)
class FewMnist(_FewLabels, Mnist):
    """MNIST."""


@dataclass(frozen=True)
class CentredCifar10(_Centred, Cifar10):
    """CIFAR-10."""


@dataclass(frozen=True)
class CentredNpz(_Centred, Npz):
    """Images of a .npz file."""


@dataclass(frozen=True)
class CentredSvhn(_Centred, Svhn):
    """SVHN."""


@dataclass(frozen=True)
class CentredCinic10(_Centred, Cinic10):
    """CINIC-10."""
