"""MNIST: handwritten digits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simfl.learning.datasets.idx import Checksums, IdxImages


@dataclass(frozen=True)
class Mnist(IdxImages):
    """60,000 training and 10,000 test images of 1x28x28 grey values in [0, 1], 10 classes.

    Source: LeCun, Bottou, Bengio, Haffner, "Gradient-Based Learning Applied to Document
    Recognition", Proceedings of the IEEE, 1998. The MD5 of the packed files are torchvision's.
    """

    @property
    def folder(self) -> str:
        """The folder's name in torchvision."""
        return "MNIST"

    @property
    def checksums(self) -> Mapping[str, Checksums]:
        """MD5 of the original files."""
        return {
            "train-images-idx3-ubyte": Checksums(
                "f68b3c2dcbeaaa9fbdd348bbdeb94873", "6bbc9ace898e44ae57da46a324031adb"
            ),
            "train-labels-idx1-ubyte": Checksums(
                "d53e105ee54ea40749a09fcbcd1e9432", "a25bea736e30d166cdddb491f175f624"
            ),
            "t10k-images-idx3-ubyte": Checksums(
                "9fb629c4189551a2d022fa330f9573f3", "2646ac647ad5339dbf082846283269ea"
            ),
            "t10k-labels-idx1-ubyte": Checksums(
                "ec29112dd5afa0611ce80d1b7f02629c", "27ae3e4e09519cfbb04c329615203637"
            ),
        }
