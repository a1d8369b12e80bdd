"""The images of FedCure's experiments: colour in [-1, 1]; scaled, of a few labels where asked.

[-1, 1] is what the PyTorch tutorial feeds the network that the paper's description fits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

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
    """A data set of which only the first labels are kept, its inputs scaled as asked."""

    labels: Annotated[int | None, ">= 2", "how many; null keeps all"] = None
    scaled: Annotated[
        Literal["unit", "centred", "standardised"],
        "inputs in [0, 1], in [-1, 1], or of mean 0 and deviation 1 over all training inputs",
    ] = "unit"

    def load(self, root: Path | None, seed: int) -> Data:
        """As the data set itself, without the examples of the other labels."""
        data = super().load(root, seed)  # type: ignore[safe-super]  # the data set comes after
        train, test = self._kept(data.train), self._kept(data.test)
        if self.scaled == "unit":
            return replace(data, train=train, test=test)
        middle, span = 0.5, 0.5
        if self.scaled == "standardised":
            middle, span = float(train.inputs.mean()), float(train.inputs.std())
        return replace(
            data,
            train=replace(train, inputs=(train.inputs - middle) / span),
            test=replace(test, inputs=(test.inputs - middle) / span),
        )

    def _kept(self, examples: Examples) -> Examples:
        if self.labels is None:
            return examples
        return examples.take(np.flatnonzero(examples.targets.numpy() < self.labels))


@dataclass(frozen=True)
class _Centred(_FewLabels):
    """The same in [-1, 1], unless asked otherwise."""

    scaled: Literal["unit", "centred", "standardised"] = "centred"


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
