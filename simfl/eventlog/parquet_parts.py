"""The files of an event log: parts during a run, one file at the end.

pyarrow takes a relative path with a colon for an address, so that it is given absolute ones.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from simfl.common.files import NO_HANDLES, RunFolderError, replacing
from simfl.eventlog.kinds import SCHEMA

ROW_GROUP_ROWS = 100_000
PARTS = "events"
"""The folder of the parts, within the run's."""

PART_NAME = re.compile(r"part-[0-9]{5,}\.(parquet|partial)")


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a table so that the file is either absent or complete; raises `OSError`."""
    with replacing(path) as partial:
        place = partial.absolute()
        pq.write_table(table, place, row_group_size=ROW_GROUP_ROWS, **_encoding(table.schema))


def read_parquet(path: Path, schema: pa.Schema | None = None) -> pa.Table:
    """The table of a file; raises `RunFolderError` unless it is one, with these columns.

    Columns of a dotted name, as of what an app measures, may follow them.
    """
    try:
        with pq.ParquetFile(path.absolute()) as file:
            table = file.read()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    own = [name for name in table.column_names if "." not in name]
    if schema is not None and not table.select(own).schema.equals(schema):
        raise RunFolderError(f"{path}: not a table of simfl's: {_difference(table.schema, schema)}")
    return table


def count_rows(path: Path) -> int:
    """How many rows a file has; raises `RunFolderError` unless it is a table."""
    try:
        return int(pq.read_metadata(path.absolute()).num_rows)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(path, error) from None


def part_paths(parts: Path) -> list[Path]:
    """The complete parts in a folder of them, in order."""
    return sorted(parts.glob("part-*.parquet"))


def remove_parts(parts: Path) -> None:
    """Remove a folder of parts, if it is there; what else lies in it stays, and the folder.

    From the last one on: cut off at any moment, what is left is the beginning of a log.
    """
    if parts.is_dir():
        for path in sorted(parts.iterdir(), reverse=True):
            if PART_NAME.fullmatch(path.name):
                path.unlink()
        with suppress(OSError):
            parts.rmdir()


def merge_parts(folder: Path, parts: Sequence[Path]) -> None:
    """Merge a run's parts into `events.parquet`, in row groups of a fixed row count.

    Raises `RunFolderError` where one of them is not there any more.
    """
    with (
        replacing(folder / "events.parquet") as partial,
        pq.ParquetWriter(partial.absolute(), SCHEMA, **_encoding(SCHEMA)) as writer,
    ):
        waiting: list[pa.Table] = []
        for path in parts:
            waiting.append(read_parquet(path, SCHEMA))
            while sum(table.num_rows for table in waiting) >= ROW_GROUP_ROWS:
                whole = pa.concat_tables(waiting)
                writer.write_table(whole.slice(0, ROW_GROUP_ROWS).combine_chunks())
                waiting = [whole.slice(ROW_GROUP_ROWS)]
        rest = pa.concat_tables(waiting) if waiting else SCHEMA.empty_table()
        if rest.num_rows:
            writer.write_table(rest.combine_chunks())
    remove_parts(folder / PARTS)


def _encoding(schema: pa.Schema) -> dict[str, Any]:
    """How columns are packed: a dictionary of numbers that hardly repeat takes time and room."""
    reals = [field.name for field in schema if field.type == pa.float64()]
    others = [name for name in schema.names if name not in reals]
    return {"compression": "zstd", "use_dictionary": others, "use_byte_stream_split": reals}


def _difference(found: pa.Schema, wanted: pa.Schema) -> str:
    """The first column that is missing, of another type, or too many."""
    for field in wanted:
        if field.name not in found.names:
            return f"it has no column {field.name}"
        if found.names.count(field.name) > 1:
            return f"it has several columns {field.name}"
        if found.field(field.name).type != field.type:
            its = found.field(field.name).type
            return f"its column {field.name} is of type {its}, not {field.type}"
    extra = [name for name in found.names if name not in wanted.names]
    return f"it has the column {extra[0]}" if extra else "its columns stand in another order"


def _unreadable(path: Path, error: Exception) -> Exception:
    """What to raise where a file could not be read: a process may also have too many open."""
    if isinstance(error, OSError) and error.errno in NO_HANDLES:
        return OSError(error.errno, os.strerror(error.errno), str(path))
    return RunFolderError(f"{path}: not readable as Parquet ({_in_short(error)})")


def _in_short(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
