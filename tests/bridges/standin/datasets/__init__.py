"""A stand-in for datasets: made-up rows of the columns that Flower's examples read."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

ROWS = int(os.environ.get("STANDIN_ROWS", "40"))


class MadeUp:
    """Columns of equal length, seen through a transform."""

    def __init__(
        self, columns: dict[str, Any], transform: Callable[[dict[str, Any]], Any] | None = None
    ) -> None:
        self._columns = columns
        self._transform = transform
        self._pandas = False

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __getitem__(self, place: Any) -> Any:
        if self._pandas:
            import pandas

            return pandas.DataFrame(self._columns)[place].copy()
        if self._transform is None:
            return {name: column[place] for name, column in self._columns.items()}
        one = self._transform({name: [column[place]] for name, column in self._columns.items()})
        return {name: column[0] for name, column in one.items()}

    def train_test_split(self, test_size: float, seed: int) -> Splits:
        """The first rows to train on, the last to test."""
        train = len(self) - round(test_size * len(self))
        return Splits(
            train=MadeUp({name: one[:train] for name, one in self._columns.items()}),
            test=MadeUp({name: one[train:] for name, one in self._columns.items()}),
        )

    def with_transform(self, transform: Callable[[dict[str, Any]], Any]) -> MadeUp:
        """The same, transformed when read."""
        return MadeUp(self._columns, transform)

    def with_format(self, kind: str) -> MadeUp:
        """The same as tables of pandas, where that is asked for."""
        found = MadeUp(self._columns, self._transform)
        found._pandas = kind == "pandas"
        return found


class Splits(dict[str, MadeUp]):
    """Splits by name."""

    def with_transform(self, transform: Callable[[dict[str, Any]], Any]) -> Splits:
        """All of them, transformed when read."""
        return Splits({name: one.with_transform(transform) for name, one in self.items()})


def load_dataset(name: str, split: str) -> MadeUp:
    """The test set, which nobody trains on."""
    return made_up(name, 10_000)


def made_up(name: str, number: int) -> MadeUp:
    """Rows of the columns of a data set, drawn from the number of the partition."""
    rng = np.random.default_rng(number)
    if name == "uoft-cs/cifar10":
        labels = rng.integers(0, 10, ROWS)
        images = rng.integers(0, 128, (ROWS, 32, 32, 3)) + 12 * labels[:, None, None, None]
        return MadeUp({"img": images.astype(np.uint8), "label": labels})
    if name == "hitorilabs/iris":
        features = ("petal_length", "petal_width", "sepal_length", "sepal_width")
        species = np.arange(ROWS) % 3
        columns = {one: rng.normal(size=ROWS) + species * (k + 1) for k, one in enumerate(features)}
        return MadeUp({**columns, "species": species})
    if name == "scikit-learn/adult-census-income":
        table = {f"x{column}": rng.normal(size=ROWS) for column in range(14)}
        rich = table["x0"] + table["x1"] > 0
        return MadeUp({**table, "income": rich.astype(float)})
    raise ValueError(f"no made-up data for {name}")
