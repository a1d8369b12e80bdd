"""The event log: one row per event, in one canonical order.

Rows may be added long before they end: a client round may be known, and is booked, at dispatch.
They are written once the clock has passed their end, sorted by time, kind and actor, so the file
depends on what happened, not on the order in which simultaneous events were processed. During a run
the rows are in `events/part-NNNNN.parquet`, each renamed into place when complete; `finish` merges
them into `events.parquet`.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from simfl.common.arrays import IntArray
from simfl.eventlog.accounts import Accounts, Powers
from simfl.eventlog.columns import Names
from simfl.eventlog.kinds import CANONICAL_ORDER, KIND_INDEX, Actors
from simfl.eventlog.parquet_parts import PARTS, ROW_GROUP_ROWS, merge_parts, write_parquet
from simfl.eventlog.rows import Rows, cut_rows, join_rows, rows_of, take_rows
from simfl.eventlog.table import as_table

SEGMENT_SECONDS = 60.0
MOST_BLOCKS = 1000
"""Blocks, and single rows, that are kept apart; if there are more, pending ones are joined."""


class EventLog:
    """Collects rows, keeps their accounts, and writes them in canonical order.

    If `folder` is None or `write_rows` is False, it only keeps the accounts. `check(table, first
    row)` is called with every part. Raises `OSError` if the disk cannot be used.
    """

    def __init__(
        self,
        actors: Actors,
        accounts: Accounts,
        folder: Path | None = None,
        rows_per_segment: int = ROW_GROUP_ROWS,
        write_rows: bool = True,
        check: Callable[[pa.Table, int], None] | None = None,
    ) -> None:
        self.actors = actors
        self.accounts = accounts
        self.write_rows = write_rows and folder is not None
        self.rows_booked = self.rows_written = 0
        self._folder = folder
        self._check = check
        self._rows_per_segment = rows_per_segment
        self._pending: list[Rows] = []
        self._recent: list[Rows] = []
        self._single: list[dict[str, Any]] = []
        self._before_writing: list[Callable[[float], None]] = []
        self._pending_rows = 0
        self._parts: list[Path] = []
        self._segment_opened = time.monotonic()
        self._last_time_s = 0.0
        self._hash = hashlib.sha256()
        if self.write_rows and folder is not None:
            (folder / PARTS).mkdir(parents=True, exist_ok=True)

    def add(self, rows: Rows, powers: Powers | None = None) -> None:
        """Book rows, some or all of which may end in the future; `powers` as in `Accounts`."""
        if rows.count:
            self._recent.append(self._kept(rows))
            self._pending_rows += rows.count
            self.rows_booked += rows.count
            if len(self._recent) >= MOST_BLOCKS:
                self._gather()
            self.accounts.expect(rows, powers)

    def row(self, kind: str, actor: int, time_s: float, **columns: Any) -> None:
        """Book one row; `start_s` defaults to `time_s`."""
        columns.setdefault("start_s", time_s)
        columns["duration_s"] = time_s - columns["start_s"]
        row = {"kind": KIND_INDEX[kind], "actor": actor, "time_s": time_s, **columns}
        self._single.append(row)
        self._pending_rows += 1
        self.rows_booked += 1
        if len(self._single) >= MOST_BLOCKS:
            self._gather()
        self.accounts.expect_one(row)

    def before_writing(self, add_ended: Callable[[float], None]) -> None:
        """Register `add_ended(now_s)`, which books what ended by then before anything of that time
        is written.
        """
        self._before_writing.append(add_ended)

    def advance(self, now_s: float) -> None:
        """Write what ended before `now_s`, if there is enough for a part."""
        waited = time.monotonic() - self._segment_opened >= SEGMENT_SECONDS
        if self._pending_rows >= self._rows_per_segment or waited:
            self._write(now_s, include_now=False)

    def flush(self, now_s: float) -> None:
        """Write everything that ended before `now_s`."""
        self._write(now_s, include_now=False)

    def finish(self, horizon_s: float, under_way: Sequence[Rows] = ()) -> None:
        """Cut rows in progress at `horizon_s`, write everything, merge the parts.

        `under_way` are the rows of messages and computations in progress, up to that time.
        """
        self._gather()
        self._pending = [*(cut_rows(rows, horizon_s) for rows in self._pending), *under_way]
        self._write(horizon_s, include_now=True)
        if self.write_rows and self._folder is not None:
            merge_parts(self._folder, self._parts)

    @property
    def fingerprint(self) -> str:
        """Hash of time, kind, actor, bytes and version of every row written so far."""
        return self._hash.hexdigest()

    def _kept(self, rows: Rows) -> Rows:
        """The columns of rows that are kept until the rows end."""
        return rows if self.write_rows else rows.only(_BOOKED)

    def _gather(self) -> None:
        if self._single:
            self._recent.append(self._kept(rows_of(self._single)))
            self._single = []
        if self._recent:
            self._pending.append(join_rows(self._recent))
            self._recent = []

    def _write(self, now_s: float, *, include_now: bool) -> None:
        for add_ended in self._before_writing:
            add_ended(now_s)
        self._gather()
        ended, going_on = [], []
        for rows in self._pending:
            over = rows["time_s"] <= now_s if include_now else rows["time_s"] < now_s
            ended.append(rows if over.all() else take_rows(rows, over))
            if not over.all():
                going_on.append(take_rows(rows, ~over))
        self._pending = [join_rows(going_on)] if going_on else []
        self._pending_rows = sum(rows.count for rows in self._pending)
        self._segment_opened = time.monotonic()
        if ended:
            self._write_sorted(join_rows(ended))

    def _write_sorted(self, rows: Rows) -> None:
        """Write rows in canonical order, in as many parts as necessary."""
        order = canonical_order(rows)
        for begin in range(0, rows.count, ROW_GROUP_ROWS):
            self._write_segment(take_rows(rows, order[begin : begin + ROW_GROUP_ROWS]))

    def _write_segment(self, rows: Rows) -> None:
        self.accounts.book(rows, self._last_time_s)
        self._last_time_s = float(rows["time_s"][-1])
        self._hash.update(_trajectory(rows))
        if self.write_rows and self._folder is not None:
            path = self._folder / PARTS / f"part-{len(self._parts):05d}.parquet"
            table = as_table(rows, self.rows_written, self._names, self.actors.clients)
            write_parquet(table, path)
            if self._check is not None:
                self._check(table, self.rows_written)
            self._parts.append(path)
        self.rows_written += rows.count

    @cached_property
    def _names(self) -> Names:
        """The actors' names, created when rows are first written."""
        return Names(self.actors.names())


def canonical_order(rows: Rows) -> IntArray:
    """Indices of rows in order; only rows with equal times are compared by other columns."""
    order = np.argsort(rows["time_s"], kind="stable")
    times_s = rows["time_s"][order]
    same = times_s[1:] == times_s[:-1]
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    among = order[tied]
    keys = [rows[name][among] for name in reversed(CANONICAL_ORDER)]
    order[tied] = among[np.lexsort(keys)]
    return order


def _trajectory(rows: Rows) -> bytes:
    record = np.empty(
        rows.count,
        dtype=[("time", "<f8"), ("kind", "<i1"), ("actor", "<i4"), ("bytes", "<i8"), ("v", "<i8")],
    )
    for name, column in zip(record.dtype.names or (), _TRAJECTORY, strict=True):
        record[name] = rows[column]
    return record.tobytes()


_BOOKED = {
    *CANONICAL_ORDER,
    "duration_s",
    "energy_j",
    "extra_j",
    "tail_j",
    "tail_ends_s",
    "bytes",
    "lost_bytes",
    "staleness",
}
"""Columns kept for rows that are not written: for the accounts and the fingerprint."""

_TRAJECTORY = ("time_s", "kind", "actor", "bytes", "version")
