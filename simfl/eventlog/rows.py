"""Blocks of event rows as columns: created, joined, and cut at the horizon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simfl.eventlog.kinds import COLUMNS, CUTS, KIND_INDEX

_OF_BLOCKS = {name: column for name, column in COLUMNS.items() if column.dtype is not None}
_REQUIRED = [name for name, column in _OF_BLOCKS.items() if column.required]

_PRO_RATA = ("energy_j", "extra_j", "active_j", "tail_j", "unmet_j")
_WITH_TAIL = {"energy_j", "extra_j", "active_j", "tail_j"}
_UNEVEN = [KIND_INDEX[kind] for kind in ("download", "compute", "upload", "network")]


class Rows:
    """`count` rows as arrays of shape (count,), by the names in `kinds.COLUMNS`.

    `columns` are those that were given; for others, `rows[name]` is the column's default. Arrays
    may be shared with the caller: do not write to them.
    """

    __slots__ = ("columns", "count")

    def __init__(self, count: int, columns: Mapping[str, NDArray[Any]]) -> None:
        self.count = count
        self.columns = columns

    def __getitem__(self, name: str) -> NDArray[Any]:
        given = self.columns.get(name)
        return _column(self.count, name, COLUMNS[name].default) if given is None else given

    def only(self, names: Set[str]) -> Rows:
        """The same rows without their other columns."""
        kept = {name: column for name, column in self.columns.items() if name in names}
        return Rows(self.count, kept)


def make_rows(count: int, **columns: ArrayLike | Sequence[str | None] | None) -> Rows:
    """`count` rows from arrays or scalars; what is not given, or None, gets the default.

    `extra_j` is the energy of a row beyond its actor's idle power: it is not written, but kept for
    the accounts. Raises ValueError for an unknown column, and if one without a default is missing.
    """
    _refuse_unknown(columns.keys())
    for name in _REQUIRED:
        if columns.get(name) is None:
            raise ValueError(f"event column {name} is missing")
    given = {name: given for name, given in columns.items() if given is not None}
    return Rows(count, {name: _column(count, name, value) for name, value in given.items()})


def rows_of(single: Sequence[Mapping[str, Any]]) -> Rows:
    """Single rows as columns; each may leave out columns with a default."""
    names = {name for row in single for name in row}
    _refuse_unknown(names)
    columns = {name: [row.get(name, COLUMNS[name].default) for row in single] for name in names}
    return make_rows(len(single), **columns)


def join_rows(blocks: Sequence[Rows]) -> Rows:
    """Several blocks of rows as one, with the columns that any of them has."""
    if len(blocks) == 1:
        return blocks[0]
    count = sum(block.count for block in blocks)
    columns: dict[str, NDArray[Any]] = {}
    for name in dict.fromkeys(name for block in blocks for name in block.columns):
        default, columns[name] = COLUMNS[name].default, np.empty(count, COLUMNS[name].dtype)
        begin = 0
        for block in blocks:
            end = begin + block.count
            columns[name][begin:end] = block.columns.get(name, default)
            begin = end
    return Rows(count, columns)


def take_rows(rows: Rows, which: NDArray[Any]) -> Rows:
    """The rows of a mask or an index array, as new arrays."""
    columns = {name: column[which] for name, column in rows.columns.items()}
    count = int(np.count_nonzero(which)) if which.dtype == bool else which.size
    return Rows(count, columns)


def cut_rows(rows: Rows, horizon_s: float) -> Rows:
    """End rows at the horizon: drop those not begun, keep the elapsed share of those in progress.

    Messages and computations in progress are left out: their power is not constant, and the caller
    enters their elapsed part. Nor is a server's power constant if it aggregates while its radio is
    still in its tail: `tail_ends_s` says until when.
    """
    late = rows["time_s"] > horizon_s
    if not late.any():
        return rows
    kept = ~late | ((rows["start_s"] < horizon_s) & ~np.isin(rows["kind"], _UNEVEN))
    rows, late = take_rows(rows, kept), late[kept]
    elapsed_s = horizon_s - rows["start_s"]
    share = np.where(late, elapsed_s / np.where(late, rows["duration_s"], 1.0), 1.0)
    columns = dict(rows.columns)
    for name in columns.keys() & set(_PRO_RATA):
        columns[name] = columns[name] * share
    if "tail_ends_s" in columns:
        lasts_s = rows["tail_ends_s"] - rows["start_s"]
        cut = late & (lasts_s > 0)
        tail_share = np.minimum(elapsed_s / np.where(cut, lasts_s, 1.0), 1.0)
        more_j = np.where(cut, rows["tail_j"] * (tail_share - share), 0.0)
        for name in columns.keys() & _WITH_TAIL:
            columns[name] = columns[name] + more_j
    ended: dict[str, Any] = {
        "time_s": horizon_s,
        "duration_s": elapsed_s,
        "cut_by": CUTS.index("end"),
    }
    for name, value in ended.items():
        columns[name] = np.where(late, value, rows[name]).astype(COLUMNS[name].dtype)
    return Rows(rows.count, columns)


def _column(count: int, name: str, value: Any) -> NDArray[Any]:
    """Scalars take no memory: they are broadcast to all rows."""
    column = np.asarray(value, dtype=_OF_BLOCKS[name].dtype)
    return column if column.shape == (count,) else np.broadcast_to(column, (count,))


def _refuse_unknown(names: Set[str]) -> None:
    unknown = names - _OF_BLOCKS.keys()
    if unknown:
        raise ValueError(f"no such event columns: {', '.join(sorted(unknown))}")
