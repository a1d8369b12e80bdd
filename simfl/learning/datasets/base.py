"""Data sets in memory, and the interface of every data set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
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


MOST_NAMED = 4
"""The most columns named in a message."""


@dataclass(frozen=True, eq=False)
class Data:
    """A loaded data set.

    `outputs` is the number of classes, or of a regression's values. `natural` has one client number
    per training row if the data have owners, otherwise None. `flipped` are the test examples with
    another value of a spurious feature (a colour, for example), if the data set has one: a model
    that relies on it performs differently there. `unused` are columns of a table that are not
    features because others were named, without being left out explicitly. `scattered` are columns
    of categories with nearly as many as there are training rows, and how many: each of them is a
    feature. `placeholders` are numeric columns with a number that perhaps stands for missing
    values, and which. `row_numbers` are numeric columns that number the file's rows.
    """

    train: Examples
    test: Examples
    task: Task
    outputs: int
    natural: np.ndarray | None = None
    flipped: Examples | None = None
    unused: Sequence[str] = ()
    scattered: Mapping[str, int] = field(default_factory=dict)
    placeholders: Mapping[str, float] = field(default_factory=dict)
    row_numbers: Sequence[str] = ()

    @property
    def doubts(self) -> dict[str, tuple[str, int]]:
        """What is doubtful in columns of a table: kind of warning -> message, columns."""
        told = {
            "unused_columns": (self._about_unused, len(self.unused)),
            "scattered_columns": (self._about_scattered, len(self.scattered)),
            "placeholder_values": (self._about_placeholders, len(self.placeholders)),
            "row_numbers": (self._about_row_numbers, len(self.row_numbers)),
        }
        return {kind: (message, count) for kind, (message, count) in told.items() if count}

    @property
    def _about_unused(self) -> str:
        names = _named(self.unused)
        columns = "a column is" if len(self.unused) == 1 else f"{len(self.unused)} columns are"
        return (
            f"{columns} not among the features, because data.numeric or data.categorical names"
            f" others: {names}"
        )

    @property
    def _about_scattered(self) -> str:
        of_each = [f"{name} ({count:,})" for name, count in self.scattered.items()]
        return (
            f"{sum(self.scattered.values()):,} of the {self.input_shape[0]:,} features are single"
            f" values of columns that differ in most rows: {_named(of_each)}"
        )

    @property
    def _about_placeholders(self) -> str:
        of_each = [f"{name} ({number:g})" for name, number in self.placeholders.items()]
        return (
            "a number far from all others of its column, in several rows, perhaps stands for a"
            f" missing value: {_named(of_each)}"
        )

    @property
    def _about_row_numbers(self) -> str:
        columns = "a feature numbers" if len(self.row_numbers) == 1 else "features number"
        return (
            f"{columns} the file's rows ({_named(self.row_numbers)}): if rows are sorted by label,"
            " owner or date, the label is read off it"
        )

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one example: (features,) or (channels, height, width)."""
        return tuple(self.train.inputs.shape[1:])


def _named(columns: Sequence[str]) -> str:
    more = len(columns) - MOST_NAMED
    return ", ".join(columns[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


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
