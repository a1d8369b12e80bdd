"""The files of an event log: segments while a run goes on, one file in the end."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from simfl.eventlog.kinds import SCHEMA

ROW_GROUP_ROWS = 100_000


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a table so that the file is either absent or complete."""
    partial = path.with_suffix(".partial")
    pq.write_table(table, partial, compression="zstd", row_group_size=ROW_GROUP_ROWS)
    partial.replace(path)


def segment_paths(folder: Path) -> list[Path]:
    """The complete segments of a run folder, in order."""
    return sorted((folder / "events").glob("part-*.parquet"))


def merge_segments(folder: Path) -> None:
    """Merge `events/part-*.parquet` into `events.parquet`, in row groups of a fixed row count."""
    partial = folder / "events.partial"
    with pq.ParquetWriter(partial, SCHEMA, compression="zstd") as writer:
        waiting: list[pa.Table] = []
        for path in segment_paths(folder):
            waiting.append(pq.read_table(path, schema=SCHEMA))
            while sum(table.num_rows for table in waiting) >= ROW_GROUP_ROWS:
                whole = pa.concat_tables(waiting)
                writer.write_table(whole.slice(0, ROW_GROUP_ROWS).combine_chunks())
                waiting = [whole.slice(ROW_GROUP_ROWS)]
        rest = pa.concat_tables(waiting) if waiting else SCHEMA.empty_table()
        if rest.num_rows:
            writer.write_table(rest.combine_chunks())
    partial.replace(folder / "events.parquet")
    shutil.rmtree(folder / "events")
