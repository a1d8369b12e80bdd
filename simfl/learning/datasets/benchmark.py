"""Common base of the public data sets: files under the data root, and stratified subsets."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from simfl.common.files import DataMissing
from simfl.learning.datasets.base import Data, Dataset, Examples
from simfl.learning.datasets.stratified import stratified_rows


@dataclass(frozen=True)
class Benchmark(Dataset):
    """A public data set under the data root; subsets are stratified draws of the seed."""

    examples: Annotated[int | None, ">= 1", "training rows to use; null: all"] = None
    test_examples: Annotated[int | None, ">= 1", "test rows to use; null: all"] = None

    @abstractmethod
    def what_to_put(self, root: str) -> str:
        """The needed files and their places under `root`, as a part of a sentence."""

    @abstractmethod
    def read(self, root: Path) -> Data:
        """The whole data set; raises DataMissing if files are absent."""

    def load(self, root: Path | None, seed: int) -> Data:
        """Reads from the data root, and takes the configured subsets."""
        if root is None:
            raise DataMissing(
                f"no data root is set: put {self.what_to_put('<root>')} and name <root> with"
                " --data-root, SIMFL_DATA or data.root"
            )
        data = self.read(root)
        return replace(
            data,
            train=_subset(data.train, self.examples, "examples", seed),
            test=_subset(data.test, self.test_examples, "test_examples", seed),
        )

    def missing(self, root: Path, absent: str) -> DataMissing:
        """The error for a data root without the files."""
        return DataMissing(f"{absent}: put {self.what_to_put(str(root))}")


def _subset(examples: Examples, count: int | None, key: str, seed: int) -> Examples:
    if count is None:
        return examples
    if count > len(examples):
        raise ValueError(f"{key}: found {count}, accepted: at most {len(examples)}")
    return examples.take(stratified_rows(examples.targets, count, seed))
