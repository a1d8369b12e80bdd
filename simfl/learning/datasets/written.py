"""Checks for badly formatted cells of tables; each is refused in one line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

DRESSED = re.compile(r"[-+]?[$€£¥]?\s?(\d{1,3}([,.' \u00a0\u202f]\d{3})+|\d+)([.,]\d+)?\s?[%$€£¥]?")
"""A number with a decimal comma, marks between thousands, a per cent sign or a currency."""

FEWEST_NUMBERS = 20
"""A column with fewer different numbers may hold categories, such as 0, 1, 2, 3+."""

MOST_OTHERS = 0.1
"""The share of rows that may be non-numbers in a column that was meant to hold numbers."""

SEPARATORS = (";", "\t", "|", ",", " ")
"""Separators of cells, the most likely first."""


def require_no_disguised_numbers(column: pd.Series, what: str, otherwise: str) -> None:
    """Raises ValueError if a text column holds numbers, other than a few that may be categories.

    `what` begins the sentence, `otherwise` says what to do if text is intended.
    """
    given = column.dropna()
    if not len(given) or not all(isinstance(one, str) for one in given):
        return
    values = [str(one) for one in given.unique()]
    others = [one for one in values if not is_number(one)]
    if not others and len(values) < FEWEST_NUMBERS:
        return
    if not others:
        others = values
        found = f"numbers stored as text, such as {values[0]!r}"
        accepted = "numbers"
    elif all(DRESSED.fullmatch(one.strip()) for one in others):
        found = f"numbers written as text, such as {others[0]!r}"
        accepted = "numbers like 1234.5"
    elif len(values) - len(others) >= FEWEST_NUMBERS and given.isin(
        others
    ).sum() <= MOST_OTHERS * len(given):
        found = f"numbers together with text, such as {others[0]!r}"
        accepted = "numbers and missing values (for a csv, missing_values sets their texts)"
    else:
        return
    row = _first(given, others[0])
    raise ValueError(f"{what} has {found} in row {row}; accepted: {accepted}, or {otherwise}")


def require_one_spelling(columns: Sequence[pd.Series], what: str) -> None:
    """Raises ValueError, beginning with `what`, if values differ only in outer blanks."""
    texts = [one.map(str) for one in columns if one.dtype.kind not in "fiub"]
    known: dict[str, tuple[str, int]] = {}
    for column in texts:
        for value in column.unique():
            row = _first(column, value)
            other, its_row = known.setdefault(value.strip(), (value, row))
            if other != value:
                raise ValueError(
                    f"{what} has {other!r} in row {its_row} and {value!r} in row {row}, which"
                    f" differ in blanks only; accepted: one spelling of each"
                )


def require_several_cells(cells: Sequence[str], names: int | None, separator: str) -> None:
    """Raises ValueError if a file's first row is one cell, but not with another separator.

    `names` is the number of named columns (None: none).
    """
    whole = separator.join(cells)
    if len(cells) != 1 and (names is None or len(cells) == names):
        return
    for other in SEPARATORS:
        pieces = len(whole.split(other))
        if other != separator and pieces > 1 and names in (None, pieces):
            count = "one cell" if len(cells) == 1 else f"{len(cells)} cells"
            raise ValueError(
                f"separator: found {separator!r}, by which the first row has {count},"
                f" {whole!r}; accepted: the character between two cells, perhaps {other!r}"
            )


def is_number(value: object) -> bool:
    """Whether a cell reads as a number."""
    try:
        float(str(value))
    except ValueError:
        return False
    return True


def _first(column: pd.Series, value: object) -> int:
    """The number, from 1, of the first row with a value."""
    return int(column.index[column == value][0]) + 1
