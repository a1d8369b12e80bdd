"""Columns of a table as tensors: features, targets and owners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from simfl.learning.datasets.stratified import stratified_rows
from simfl.learning.objective import Task


@dataclass(frozen=True, eq=False)
class Encoding:
    """The encoding of a column as features, fitted on the training rows.

    A category becomes one feature for each of its `values`, 1 for the row's value; for a value that
    no training row has, all are 0. Numbers have `mean` subtracted and are divided by `deviation`.
    """

    values: Sequence[np.ndarray]
    mean: np.ndarray
    deviation: np.ndarray

    @classmethod
    def of(
        cls, categories: Sequence[np.ndarray], numbers: np.ndarray, *, standardised: bool
    ) -> Encoding:
        """Fits the encoding on the training rows: categories (rows,), and numbers (rows, columns).

        Numbers are unchanged unless `standardised`; if all are equal, only the mean is subtracted.
        """
        values = [np.unique(column) for column in categories]
        if not standardised:
            return cls(values, np.zeros(numbers.shape[1]), np.ones(numbers.shape[1]))
        # If all numbers are equal, rounding of their mean may give a deviation slightly above 0.
        mean, deviation = numbers.mean(axis=0), numbers.std(axis=0)
        equal = (np.ptp(numbers, axis=0) == 0) | (deviation == 0)
        return cls(values, mean, np.where(equal, 1.0, deviation))

    def features(self, categories: Sequence[np.ndarray], numbers: np.ndarray) -> Tensor:
        """float32 (rows, features): the categories' one after the other, then the numbers."""
        found = [
            _flags(column, known) for column, known in zip(categories, self.values, strict=True)
        ]
        columns = (numbers - self.mean) / self.deviation
        return torch.from_numpy(np.concatenate([*found, columns], axis=1).astype(np.float32))


def _flags(column: np.ndarray, known: np.ndarray) -> np.ndarray:
    """1 at the place of each row's value among the `known` ones (ascending): (rows, values)."""
    place = np.minimum(np.searchsorted(known, column), len(known) - 1)
    rows = np.flatnonzero(known[place] == column)
    flags = np.zeros((len(column), len(known)), dtype=np.float32)
    flags[rows, place[rows]] = 1.0
    return flags


def targets_of(
    train: np.ndarray, test: np.ndarray, task: Task | None
) -> tuple[Tensor, Tensor, Task, int]:
    """A column of labels as targets of both parts, the task, and the number of outputs.

    The task, unless given: real numbers are a regression, all other values are classes, numbered in
    ascending order of the training rows' values. Raises ValueError, without a key, for a test row
    of another class, and for a non-number in a regression.
    """
    if _is_regression(train, task):
        for values in (train, test):
            if values.dtype.kind not in "fiub":
                raise ValueError("a regression takes numbers, found text")
        found = [torch.from_numpy(one.astype(np.float32)).reshape(-1, 1) for one in (train, test)]
        return found[0], found[1], "regression", 1
    classes = np.unique(train)
    unknown = np.setdiff1d(test, classes)
    if unknown.size:
        raise ValueError(f"{unknown[0].item()!r} is in the test rows and in no training row")
    found = [torch.from_numpy(np.searchsorted(classes, one)) for one in (train, test)]
    return found[0], found[1], "classification", len(classes)


def require_once(columns: Sequence[str], key: str) -> None:
    """Raises ValueError with the key if a column is named twice, because it would count double."""
    for place, column in enumerate(columns):
        if column in columns[:place]:
            raise ValueError(f"{key}: found {column!r} twice, accepted: every column once")


def owner_numbers(names: np.ndarray) -> np.ndarray:
    """Owners 0, 1, ... in ascending order of their names: int64 (rows,)."""
    numbers: np.ndarray = np.unique(names, return_inverse=True)[1]
    return numbers.astype(np.int64)


def held_out(
    labels: np.ndarray, share: float, seed: int, task: Task | None
) -> tuple[np.ndarray, np.ndarray]:
    """(training, test) rows of a table: a `share` is held out, of every class if there are any.

    A regression's values are not classes, even if whole numbers: each would be a class of a few
    rows. Classes so rare that they would be held out entirely are trained and not tested. Raises
    ValueError with the key `label` if most held-out rows are of such classes, and with the key
    `test_share` if one part has no row.
    """
    if _is_regression(labels, task):
        classes = torch.zeros(len(labels), dtype=torch.int64)
    else:
        classes = torch.from_numpy(np.unique(labels, return_inverse=True)[1].astype(np.int64))
    test = stratified_rows(classes, round(share * len(labels)), seed).numpy()
    train = np.setdiff1d(np.arange(len(labels)), test)
    too_rare = np.isin(classes[test], classes[train], invert=True)
    if train.size and 2 * too_rare.sum() > test.size:
        raise ValueError(
            f"label: found {len(np.unique(classes))} classes of {len(labels)} rows, most of them"
            " with too few rows to train and to test; accepted: classes of several rows, or `task:"
            " regression` for numbers"
        )
    train, test = np.sort(np.append(train, test[too_rare])), test[~too_rare]
    if not train.size or not test.size:
        raise ValueError(
            f"test_share: found {share}, which leaves {train.size} training and {test.size} test"
            " rows; accepted: a share that leaves rows for both"
        )
    return train, test


def _is_regression(labels: np.ndarray, task: Task | None) -> bool:
    return task == "regression" or (task is None and labels.dtype.kind == "f")
