"""The handwritten digits of scikit-learn: real data without a download."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Annotated

import numpy as np
import torch

from simfl.learning.datasets.base import Data, Dataset, Examples
from simfl.learning.datasets.stratified import stratified_split

FILE = "sklearn/datasets/data/digits.csv.gz"
"""The file in scikit-learn, read without importing scikit-learn, which takes a second."""


@dataclass(frozen=True)
class Digits(Dataset):
    """1,797 images of 1x8x8 grey values in [0, 1], 10 classes.

    Source: E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine
    Learning Repository, 1998 (its test part), as bundled with scikit-learn.
    """

    test_share: Annotated[float, "> 0", "< 1", "share held out for testing, stratified"] = 0.2

    def load(self, root: Path | None, seed: int) -> Data:
        """The images, split by the seed into training and test part."""
        file = Path(str(distribution("scikit-learn").locate_file(FILE)))
        table = torch.from_numpy(np.loadtxt(file, delimiter=","))
        examples = Examples(
            # grey values are counts 0..16 of inked pixels in a 4x4 block
            table[:, :-1].to(torch.float32).view(-1, 1, 8, 8) / 16,
            table[:, -1].to(torch.int64),
        )
        train, test = stratified_split(examples, self.test_share, seed)
        if not len(train) or not len(test):
            raise ValueError(
                f"test_share: found {self.test_share}, which leaves {len(train)} training and "
                f"{len(test)} test examples; accepted: a share that leaves both"
            )
        return Data(train, test, "classification", outputs=10)
