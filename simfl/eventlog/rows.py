"""Blocks of event rows as columns: made, joined, and cut at the horizon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Columns = dict[str, NDArray[Any]]

CUT_DETAIL = '{"cut": true}'
_COLUMNS: dict[str, tuple[type, Any]] = {
    "time_s": (np.float64, None),
    "start_s": (np.float64, None),
    "kind": (np.int8, None),
    "actor": (np.int32, None),
    "edge": (np.int32, -1),
    "version": (np.int64, -1),
    "round": (np.int64, -1),
    "duration_s": (np.float64, 0.0),
    "energy_j": (np.float64, 0.0),
    "extra_j": (np.float64, 0.0),
    "bytes": (np.int64, 0),
    "lost_bytes": (np.int64, 0),
    "frequency_hz": (np.float64, np.nan),
    "staleness": (np.float64, -1.0),
    "value": (np.float64, np.nan),
    "detail": (object, None),
}


def make_rows(count: int, **columns: ArrayLike | Sequence[str | None] | None) -> Columns:
    """`count` rows from arrays or scalars; what is not given takes the column's default.

    `extra_j` is what a row costs beyond its actor's idle power, `lost_bytes` what was sent in vain;
    they are not written, but kept for the accounts.
    """
    rows: Columns = {}
    for name, (dtype, default) in _COLUMNS.items():
        given = columns.pop(name, default)
        if given is None and dtype is not object:
            raise ValueError(f"event column {name} is missing")
        column: NDArray[Any] = np.empty(count, dtype=dtype)
        column[:] = given
        rows[name] = column
    if columns:
        raise ValueError(f"no such event columns: {', '.join(sorted(columns))}")
    return rows


def rows_of(single: Sequence[Mapping[str, Any]]) -> Columns:
    """Rows given one by one as columns; each may leave out what has a default."""
    unknown = {name for row in single for name in row} - _COLUMNS.keys()
    if unknown:
        raise ValueError(f"no such event columns: {', '.join(sorted(unknown))}")
    columns = {
        name: [row.get(name, default) for row in single] for name, (_, default) in _COLUMNS.items()
    }
    return make_rows(len(single), **columns)


def join_rows(blocks: Sequence[Columns]) -> Columns:
    """Several blocks of rows as one."""
    return {name: np.concatenate([block[name] for block in blocks]) for name in _COLUMNS}


def take_rows(rows: Columns, which: NDArray[Any]) -> Columns:
    """The rows of a mask or an index array."""
    return {name: column[which] for name, column in rows.items()}


def cut_rows(rows: Columns, horizon_s: float) -> Columns:
    """End rows at the horizon: drop those not begun, keep the elapsed share of those under way.

    A cut row's energy and duration are pro rata, its bytes are 0 (no message arrived) and its
    detail is `{"cut": true}`.
    """
    rows = take_rows(rows, (rows["start_s"] < horizon_s) | (rows["time_s"] <= horizon_s))
    late = rows["time_s"] > horizon_s
    if late.any():
        share = (horizon_s - rows["start_s"][late]) / rows["duration_s"][late]
        for name in ("energy_j", "extra_j"):
            rows[name][late] *= share
        rows["duration_s"][late] = horizon_s - rows["start_s"][late]
        rows["time_s"][late] = horizon_s
        rows["bytes"][late], rows["lost_bytes"][late] = 0, 0
        rows["detail"][late] = CUT_DETAIL
    return rows
