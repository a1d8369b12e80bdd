"""Columns from numpy's buffers are those that pyarrow makes itself."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from simfl.eventlog import columns
from simfl.eventlog.columns import Names, column_of, number_column, table_of, text_column

TEXTS = ["one", None, "", "drei \u00e4\u00f6\u00fc \u2026", None, "\U0001f40d"] * 3
EMPTY = np.array([text is None for text in TEXTS])


@pytest.mark.parametrize("texts", [TEXTS, ["all", "there"], [None, None], []])
@pytest.mark.parametrize("most", [2**31 - 1, 1])
def test_texts(texts: list[str | None], most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their letters, and however many there are."""
    monkeypatch.setattr(columns, "MOST_LETTERS", most)

    made = text_column(texts)

    made.validate(full=True)
    assert made.equals(pa.array(texts, pa.string()))


def test_names_by_number() -> None:
    """Numbers of rows that are empty may be anything."""
    names = ["client-0", "", "wolke \u2601", "network"]
    numbers = np.array([3, 0, 2, 1, 2, 0] * 3, dtype=np.int8)
    taken = [names[number] for number in numbers]

    assert Names(names).column(numbers).to_pylist() == taken
    shown = [None if none else name for none, name in zip(EMPTY, taken, strict=True)]
    made = Names(names).column(np.where(EMPTY, -1, numbers), EMPTY)
    made.validate(full=True)
    assert made.to_pylist() == shown


@pytest.mark.parametrize("arrow", [pa.int32(), pa.int64(), pa.float64()])
def test_numbers(arrow: pa.DataType) -> None:
    """Also for every second row of a block, which is not a contiguous buffer."""
    values = np.arange(2 * EMPTY.size, dtype=np.int32)[::2]

    made = number_column(values, arrow, EMPTY)

    made.validate(full=True)
    assert made.equals(pa.array(values, arrow, mask=EMPTY))
    assert number_column(values, arrow, np.zeros_like(EMPTY)).equals(pa.array(values, arrow))


def test_a_number_that_does_not_fit_is_refused() -> None:
    """Half a version would be cut off without a word."""
    with pytest.raises(TypeError, match="safe"):
        number_column(np.array([0.5]), pa.int64())


@pytest.mark.parametrize(
    "values",
    [
        [0.5, math.nan],
        np.array([1, 2]),
        ["rpi_4b", "phone"],
        [np.array([1, 2, 3]), np.array([4])],
        np.array([[1, 2], [3, 4]]),
    ],
)
def test_columns_of_clients(values: object) -> None:
    """Numbers, texts and lists of numbers."""
    made = column_of(values)

    made.validate(full=True)
    assert str(made) == str(pa.array(list(values)))  # type: ignore[call-overload]
    assert made.type == pa.array(list(values)).type  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"version": 1, "loss": 2}, {"version": None, "loss": math.nan, "on": "test"}],
        [{"on": "own"}],
    ],
)
def test_tables_of_rows(rows: list[dict[str, object]]) -> None:
    """What a row lacks is empty; NaN is a number."""
    fields = [("version", pa.int64()), ("loss", pa.float64()), ("on", pa.string())]
    schema = pa.schema(fields)

    made, expected = table_of(rows, schema), pa.Table.from_pylist(rows, schema=schema)

    made.validate(full=True)
    assert made.schema == schema
    assert repr(made.to_pylist()) == repr(expected.to_pylist())
