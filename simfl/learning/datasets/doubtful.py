"""Columns of a table that are perhaps no features; each kind is told in one line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from simfl.learning.datasets.written import FEWEST_NUMBERS

Doubts = Mapping[str, tuple[str, int]]
"""Kind of warning -> its message, and how many columns it is about."""

MOST_SCATTERED = 0.5
"""Up to this share of the training rows, a column's different values are categories."""

NAMES_OF_AN_INDEX = re.compile(r"unnamed: \d+|__index_level_\d+__|index|id|row|", re.IGNORECASE)
"""Names of columns that hold a table's index; the first two are pandas' in CSV and Parquet."""

FEWEST_PLACEHOLDERS = 2
"""In at least so many rows stands a number that is taken for a missing value."""

PLACEHOLDER_DISTANCE = 5.0
"""It is more than so many times as far from the other numbers as these are from each other."""

MOST_NAMED = 4
"""The most columns named in a message."""


def unused_columns(columns: Sequence[str]) -> Doubts:
    """Columns that are no features because others were named, and were not left out either."""
    are = "a column is" if len(columns) == 1 else f"{len(columns)} columns are"
    message = (
        f"{are} not among the features, because data.numeric or data.categorical names"
        f" others: {_named(columns)}"
    )
    return _if_any("unused_columns", message, columns)


def scattered_columns(values: Mapping[str, int], rows: int, features: int) -> Doubts:
    """Categories with nearly as many values as there are training `rows`: each is a feature.

    `values` are the numbers of different values by column.
    """
    least = max(FEWEST_NUMBERS, MOST_SCATTERED * rows)
    found = {column: count for column, count in values.items() if count > least}
    message = (
        f"{sum(found.values()):,} of the {features:,} features are single values of columns that"
        f" differ in most rows: {_named([f'{name} ({count:,})' for name, count in found.items()])}"
    )
    return _if_any("scattered_columns", message, [*found])


def placeholder_values(columns: Mapping[str, np.ndarray]) -> Doubts:
    """Columns of numbers, each (rows,), with one that perhaps stands for missing values."""
    found = {name: placeholder(values) for name, values in columns.items()}
    told = [f"{name} ({number:g})" for name, number in found.items() if number is not None]
    message = (
        "a number far from all others of its column, in several rows, perhaps stands for a"
        f" missing value: {_named(told)}"
    )
    return _if_any("placeholder_values", message, told)


def row_numbers(columns: Mapping[str, np.ndarray]) -> Doubts:
    """Columns of numbers, each (rows,) in the file's order, that number its rows."""
    found = [name for name, values in columns.items() if counts_rows(name, values)]
    numbers = "a feature numbers" if len(found) == 1 else "features number"
    message = (
        f"{numbers} the file's rows ({_named(found)}): if rows are sorted by label, owner or"
        " date, the label is read off it"
    )
    return _if_any("row_numbers", message, found)


def placeholder(values: np.ndarray) -> float | None:
    """The number in a column, shape (rows,), that perhaps stands for a missing value, as -999 does.

    It is the least or the largest, occurs in several rows, and lies far from all others.
    """
    for extreme in (values.min(), values.max()):
        others = values[values != extreme]
        rows = values.size - others.size
        if rows < FEWEST_PLACEHOLDERS or np.unique(others).size < FEWEST_NUMBERS:
            continue
        if np.abs(others - extreme).min() > PLACEHOLDER_DISTANCE * np.ptp(others):
            return float(extreme)
    return None


def counts_rows(name: str, values: np.ndarray) -> bool:
    """Whether a column, shape (rows,), numbers the rows of its file, as pandas' index does.

    Whole numbers, all different, that rise from row to row, or are those of a range in any order,
    or have a name such as pandas gives to an index.
    """
    if values.size < FEWEST_NUMBERS or (values % 1).any() or np.unique(values).size < values.size:
        return False
    rises, is_range = (np.diff(values) > 0).all(), np.ptp(values) == values.size - 1
    return bool(rises or is_range) or NAMES_OF_AN_INDEX.fullmatch(name) is not None


def _if_any(kind: str, message: str, columns: Sequence[str]) -> Doubts:
    return {kind: (message, len(columns))} if columns else {}


def _named(columns: Sequence[str]) -> str:
    more = len(columns) - MOST_NAMED
    return ", ".join(columns[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
