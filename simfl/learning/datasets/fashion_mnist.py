"""Fashion-MNIST: pieces of clothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simfl.learning.datasets.idx import Checksums, IdxImages


@dataclass(frozen=True)
class FashionMnist(IdxImages):
    """60,000 training and 10,000 test images of 1x28x28 grey values in [0, 1], 10 classes.

    Source: Xiao, Rasul, Vollgraf, "Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine
    Learning Algorithms", 2017. The MD5 of the packed files are torchvision's.
    """

    @property
    def folder(self) -> str:
        """The folder's name in torchvision."""
        return "FashionMNIST"

    @property
    def checksums(self) -> Mapping[str, Checksums]:
        """MD5 of the original files."""
        return {
            "train-images-idx3-ubyte": Checksums(
                "8d4fb7e6c68d591d4c3dfef9ec88bf0d", "f4a8712d7a061bf5bd6d2ca38dc4d50a"
            ),
            "train-labels-idx1-ubyte": Checksums(
                "25c81989df183df01b3e8a0aad5dffbe", "9018921c3c673c538a1fc5bad174d6f9"
            ),
            "t10k-images-idx3-ubyte": Checksums(
                "bef4ecab320f06d8554ea6380940ec79", "8181f5470baa50b63fa0f6fddb340f0a"
            ),
            "t10k-labels-idx1-ubyte": Checksums(
                "bb300cfdad3c16e7a12a480ee83cd310", "15d484375f8d13e6eb1aabb0c3f46965"
            ),
        }
