"""CINIC-10: CIFAR-10 enlarged with images from ImageNet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from simfl.learning.datasets.base import Data
from simfl.learning.datasets.benchmark import Benchmark
from simfl.learning.datasets.image_folder import read_images

FOLDERS = ("CINIC-10", "cinic-10")
"""Names under which the unpacked archive is found."""


@dataclass(frozen=True)
class Cinic10(Benchmark):
    """90,000 training and 90,000 test images of 3x32x32 in [0, 1], 10 classes.

    The validation part (90,000 more) is left aside. Source: Darlow et al., "CINIC-10 is not
    ImageNet or CIFAR-10", 2018.
    """

    def what_to_put(self, root: str) -> str:
        """The unpacked archive."""
        return (
            f"the unpacked CINIC-10.tar.gz into {root}/CINIC-10, as train/<class>/*.png and test/"
        )

    def read(self, root: Path) -> Data:
        """Training and test part."""
        folders = [
            root / name
            for name in FOLDERS
            if (root / name / "train").is_dir() and (root / name / "test").is_dir()
        ]
        if not folders:
            raise self.missing(root, f"no {root / FOLDERS[0]} with train and test is there")
        # every image is 32x32 already; the size guards against a stray one
        train, classes = read_images(folders[0] / "train", 32)
        test, test_classes = read_images(folders[0] / "test", 32)
        if classes != test_classes:
            raise ValueError(f"{folders[0]}: train has the classes {classes}, test {test_classes}")
        return Data(train, test, "classification", outputs=len(classes))
