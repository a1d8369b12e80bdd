"""Replays an interrupted run and compares it with the existing log."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from simfl.eventlog.kinds import SCHEMA
from simfl.eventlog.parquet_parts import (
    PARTS,
    count_rows,
    part_paths,
    read_parquet,
    remove_parts,
)

BEFORE = "events.before"
"""The folder, within the run's, with the parts that a replay has to repeat."""


class ReplayDiffers(RuntimeError):
    """The replay did not repeat the log: the code, the data or the machine differs."""


class WrittenLog:
    """The events that a run wrote before it was interrupted, set aside while they are replayed.

    They stay on disk until the replay has written as many rows, so another interruption loses
    nothing. Raises `RunFolderError` for parts that cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / BEFORE
        self._paths = part_paths(self._folder)
        self.rows = sum(map(count_rows, self._paths))
        self._waiting = iter(self._paths)
        self._table = SCHEMA.empty_table()

    def check(self, replayed: pa.Table, first_row: int) -> None:
        """Compare the next rows with those written earlier; raises `ReplayDiffers`."""
        count = min(replayed.num_rows, self.rows - first_row)
        while self._table.num_rows < count:
            part = read_parquet(next(self._waiting), SCHEMA)
            self._table = pa.concat_tables([self._table, part])
        if count > 0:
            expected, self._table = self._table.slice(0, count), self._table.slice(count)
            if not replayed.slice(0, count).combine_chunks().equals(expected.combine_chunks()):
                raise ReplayDiffers(
                    f"rows {first_row} to {first_row + count - 1} of the event log are not what"
                    f" was written before, in {self._folder}: the code, the data, the machine or"
                    " these files are not what they were; --overwrite begins the run anew"
                )
        if first_row + replayed.num_rows >= self.rows:
            remove_parts(self._folder)


def set_aside(folder: Path) -> WrittenLog:
    """Make room for a replay's parts, keeping the longer log of earlier attempts.

    Raises `RunFolderError` if a part cannot be read; in that case nothing has been moved.
    """
    before, events = folder / BEFORE, folder / PARTS
    if _rows(events) > _rows(before):
        remove_parts(before)
        events.rename(before)
    remove_parts(events)
    return WrittenLog(folder)


def longest_log(folder: Path) -> list[Path]:
    """The parts of the folder's longest log; during a replay this may be the one set aside."""
    return part_paths(max((folder / PARTS, folder / BEFORE), key=_rows))


def _rows(parts: Path) -> int:
    return sum(map(count_rows, part_paths(parts)))
