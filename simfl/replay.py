"""Replaying a run that was cut off: the log already written is what the replay must repeat."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from simfl.eventlog.kinds import SCHEMA
from simfl.eventlog.segments import segment_paths

BEFORE = "events.before"


class ReplayDiffers(RuntimeError):
    """The replay did not repeat the log: the code, the data or the machine is another one."""


class WrittenLog:
    """The events that a run wrote before it was cut off, set aside while they are replayed.

    They stay on the disk until the replay has written as many rows, so that being cut off again
    loses nothing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / BEFORE
        self._paths = sorted(self._folder.glob("part-*.parquet"))
        self.rows = sum(pq.read_metadata(path).num_rows for path in self._paths)
        self._waiting = iter(self._paths)
        self._table = SCHEMA.empty_table()

    def check(self, replayed: pa.Table, first_row: int) -> None:
        """Compare the next rows with those written earlier; raises `ReplayDiffers`."""
        count = min(replayed.num_rows, self.rows - first_row)
        while self._table.num_rows < count:
            part = pq.read_table(next(self._waiting), schema=SCHEMA)
            self._table = pa.concat_tables([self._table, part])
        if count > 0:
            expected, self._table = self._table.slice(0, count), self._table.slice(count)
            if not replayed.slice(0, count).combine_chunks().equals(expected.combine_chunks()):
                raise ReplayDiffers(
                    f"rows {first_row} to {first_row + count - 1} of the event log are not what"
                    f" was written before; what was written is in {self._folder}"
                )
        if first_row + replayed.num_rows >= self.rows and self._folder.exists():
            shutil.rmtree(self._folder)


def set_aside(folder: Path) -> WrittenLog:
    """Make room for a replay's segments, keeping the longer log of earlier attempts."""
    before, events = folder / BEFORE, folder / "events"
    if _rows(events) > _rows(before):
        shutil.rmtree(before, ignore_errors=True)
        events.rename(before)
    shutil.rmtree(events, ignore_errors=True)
    return WrittenLog(folder)


def longest_log(folder: Path) -> list[Path]:
    """The segments of the folder's longest log: while a replay goes on, that set aside."""
    parts = segment_paths(folder)
    before = sorted((folder / BEFORE).glob("part-*.parquet"))
    return max(parts, before, key=lambda paths: sum(pq.read_metadata(p).num_rows for p in paths))


def _rows(events: Path) -> int:
    return sum(pq.read_metadata(path).num_rows for path in events.glob("part-*.parquet"))
