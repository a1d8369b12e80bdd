"""Arrow columns from numpy buffers.

`pyarrow.array` loads pandas, and `take` loads a wrapper for every function of Arrow: together half
a second of processor time that a run without a reader does not need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from simfl.common.arrays import BoolArray, IntArray

MOST_LETTERS = 2**31 - 1
"""Most bytes of text in one Arrow array."""


def number_column(
    values: NDArray[Any], arrow: pa.DataType, empty: BoolArray | None = None
) -> pa.Array:
    """Numbers of shape (rows,), null where `empty`.

    Raises TypeError for numbers that the type cannot hold.
    """
    own = np.ascontiguousarray(values.astype(arrow.to_pandas_dtype(), casting="safe", copy=False))
    return pa.Array.from_buffers(arrow, own.size, [_present(empty), pa.py_buffer(own)])


def text_column(texts: Sequence[str | None]) -> pa.Array | pa.ChunkedArray:
    """Texts; None is null."""
    encoded = [b"" if text is None else text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)])
    if ends[-1] > MOST_LETTERS:
        return pa.array(texts, pa.string())  # which can create several arrays
    return _texts(ends, b"".join(encoded), np.array([text is None for text in texts], dtype=bool))


class Names:
    """Texts that many rows share, by number."""

    def __init__(self, names: Sequence[str]) -> None:
        encoded = [name.encode() for name in names]
        self._sizes = np.array([len(name) for name in encoded])
        padded = np.array(encoded, dtype=f"S{max(1, self._sizes.max())}")
        self._letters = padded.view(np.uint8).reshape(len(encoded), -1)
        self._is_letter = np.arange(self._letters.shape[1]) < self._sizes[:, None]

    def column(self, numbers: IntArray, empty: BoolArray | None = None) -> pa.Array:
        """The name for each of `numbers`, of shape (rows,), null where `empty`."""
        shown = numbers if empty is None else numbers[~empty]
        sizes = np.zeros(numbers.size, dtype=np.int64)
        sizes[slice(None) if empty is None else ~empty] = self._sizes[shown]
        ends = np.concatenate([[0], np.cumsum(sizes)])
        return _texts(ends, self._letters[shown][self._is_letter[shown]], empty)


def column_of(values: Any) -> pa.Array | pa.ChunkedArray:
    """A column of numbers (an array of shape (rows,), or a list), texts or lists of numbers.

    Lists are arrays of shape (any,), or the rows of a matrix.
    """
    first = next(iter(values), None)
    if isinstance(first, str):
        return text_column(values)
    if isinstance(first, np.ndarray):
        ends = np.cumsum([0, *map(len, values)]).astype(np.int32)
        inner = column_of(np.concatenate(values))
        return pa.ListArray.from_arrays(number_column(ends, pa.int32()), inner)
    numbers = np.asarray(values)
    return number_column(numbers, pa.from_numpy_dtype(numbers.dtype))


def table_of(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """A table of rows; missing or None values are null."""
    columns = []
    for field in schema:
        values = [row.get(field.name) for row in rows]
        if field.type == pa.string():
            columns.append(text_column(values))
            continue
        empty = np.array([value is None for value in values], dtype=bool)
        given = np.array([0 if value is None else value for value in values] or np.empty(0, int))
        columns.append(number_column(given, field.type, empty))
    return pa.table(columns, schema=schema)


def _texts(ends: IntArray, letters: Any, empty: BoolArray | None) -> pa.Array:
    """Consecutive texts: the first ends where the second begins, at `ends[1]`."""
    buffers = [_present(empty), pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(letters)]
    return pa.Array.from_buffers(pa.string(), ends.size - 1, buffers)


def _present(empty: BoolArray | None) -> pa.Buffer | None:
    """A validity bitmap with one bit for each row; None if all rows are valid."""
    if empty is None or not empty.any():
        return None
    return pa.py_buffer(np.packbits(~empty, bitorder="little"))
