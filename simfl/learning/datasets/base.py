"""Data sets in memory, and the interface of every data set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from simfl.learning.objective import Task


@dataclass(frozen=True, eq=False)
class Examples:
    """Inputs and their targets, row by row.

    inputs: float32, (rows, features) or images (rows, channels, height, width) in [0, 1]; or uint8
    of 0 and 1, a quarter of the size as long as they are not cast. targets: int64 class indices
    (rows,), or float32 values (rows, outputs) of a regression. Raises ValueError if the two differ
    in length.
    """

    inputs: Tensor
    targets: Tensor

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.targets):
            raise ValueError(
                f"inputs and targets differ in length: {len(self.inputs)} and {len(self.targets)}"
            )

    def __len__(self) -> int:
        return self.shape[0]

    @cached_property
    def shape(self) -> torch.Size:
        """The shape of the inputs, rows first; cached, because every job needs it several times."""
        return self.inputs.shape

    def take(self, rows: np.ndarray | Tensor) -> Examples:
        """The examples of `rows` (integer indices), in that order, as a copy."""
        index = torch.as_tensor(rows, dtype=torch.int64)
        return Examples(
            self.inputs[index.to(self.inputs.device)], self.targets[index.to(self.targets.device)]
        )

    def placed(self, dtype: torch.dtype, device: torch.device | str = "cpu") -> Examples:
        """Like `cast`, but bytes stay bytes until a batch is taken."""
        if self.inputs.is_floating_point():
            return self.cast(dtype, device)
        return Examples(self.inputs.to(device), self.targets.to(device))

    def cast(self, dtype: torch.dtype, device: torch.device | str = "cpu") -> Examples:
        """These examples on `device`, real numbers as `dtype` (class indices stay integers)."""
        real = self.targets.is_floating_point()
        targets = self.targets.to(device, dtype) if real else self.targets.to(device)
        return Examples(self.inputs.to(device, dtype), targets)


@dataclass(frozen=True, eq=False)
class Data:
    """A loaded data set.

    `outputs` is the number of classes, or of a regression's values. `natural` has one client number
    per training row if the data have owners, otherwise None. `flipped` are the test examples with
    another value of a spurious feature (a colour, for example), if the data set has one: a model
    that relies on it performs differently there. `doubts` are about a table's columns, kind of
    warning -> message and how many columns (`doubtful.py`).
    """

    train: Examples
    test: Examples
    task: Task
    outputs: int
    natural: np.ndarray | None = None
    flipped: Examples | None = None
    doubts: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one example: (features,) or (channels, height, width)."""
        return tuple(self.train.inputs.shape[1:])


class Dataset(ABC):
    """A data set by name; its fields are its settings."""

    def sizes(self, client_count: int) -> np.ndarray | None:
        """Examples per client, for a data set that has only sizes.

        int64, shape (client_count,); None if there are examples, which a partition assigns.
        """
        return None

    @abstractmethod
    def load(self, root: Path | None, seed: int) -> Data:
        """Reads or generates the data; the same seed gives the same data.

        `root` is the data root (None: not given), which is only read. Raises DataMissing for absent
        files and ValueError for wrong ones.
        """
