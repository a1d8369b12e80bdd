"""Converts blocks of event rows to the files' tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from simfl.common.arrays import BoolArray
from simfl.eventlog.columns import Names, number_column, text_column
from simfl.eventlog.kinds import COLUMNS, CUTS, KINDS, SCHEMA, Column
from simfl.eventlog.rows import Rows

_KINDS = list(KINDS)
_KIND_NAMES, _CUT_NAMES = Names(_KINDS), Names(CUTS)
_HAVE = {
    name: np.array([kind in column.kinds for kind in _KINDS])
    for name, column in COLUMNS.items()
    if column.kinds is not None
}
"""For columns that only some kinds have: which kinds, by number."""


def as_table(rows: Rows, first_seq: int, names: Names, clients: int) -> pa.Table:
    """The rows as a table with `SCHEMA`; `names` are the actors', the first `clients` being
    clients.

    Raises ValueError for a value in a column that its kind does not have (`kinds.COLUMNS`).
    """
    actor = rows["actor"]
    made = {
        "seq": number_column(np.arange(first_seq, first_seq + rows.count), pa.int64()),
        "kind": _KIND_NAMES.column(rows["kind"]),
        "actor": names.column(actor),
        "client": number_column(actor, pa.int32(), actor >= clients),
    }
    columns = [
        made[field.name] if field.name in made else _array(field.name, rows, field.type)
        for field in SCHEMA
    ]
    return pa.table(columns, schema=SCHEMA)


def _array(name: str, rows: Rows, arrow: pa.DataType) -> pa.Array:
    column = COLUMNS[name]
    if name not in rows.columns and column.default != 0:
        return pa.nulls(rows.count, arrow)
    values = rows[name]
    if column.dtype is object:
        return text_column(values.tolist())
    empty = _empty(values, column)
    if column.kinds is not None:
        lack = ~_HAVE[name][rows["kind"]]
        stray = lack & (values != column.default)
        if empty is not None:
            stray &= ~empty
        if stray.any():
            kind = _KINDS[rows["kind"][stray.argmax()]]
            its = ", ".join(column.kinds)
            raise ValueError(f"a row of kind {kind} has {name}, which is for {its}")
        empty = lack if empty is None else lack | empty
    if arrow == pa.string():
        return _CUT_NAMES.column(values, empty)
    return number_column(values, arrow, empty)


def _empty(values: NDArray[Any], column: Column) -> BoolArray | None:
    """Which of the values are null; None if none is."""
    if column.default == -1:
        return values < 0
    unknown = values.dtype.kind == "f" and (column.kinds is not None or column.default != 0)
    return np.isnan(values) if unknown and not column.required else None
