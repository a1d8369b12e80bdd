"""The files of an event log: parts during a run, one file at the end.

pyarrow interprets a relative path with a colon as a URI, so paths are absolute.
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
"""The name of the folder with the parts, within the run's folder."""

PART_NAME = re.compile(r"part-[0-9]{5,}\.(parquet|partial)")


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a table so that the file is either absent or complete; raises `OSError`."""
    with replacing(path) as partial:
        place = partial.absolute()
        pq.write_table(table, place, row_group_size=ROW_GROUP_ROWS, **_encoding(table.schema))


def read_parquet(path: Path, schema: pa.Schema | None = None) -> pa.Table:
    """The table in a file; raises `RunFolderError` unless it is a table with these columns.

    Columns with dotted names, such as an app's metrics, may follow them.
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
    """The number of rows in a file; raises `RunFolderError` unless it is a table."""
    try:
        return int(pq.read_metadata(path.absolute()).num_rows)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(path, error) from None


def part_paths(parts: Path) -> list[Path]:
    """The complete parts in their folder, in order."""
    return sorted(parts.glob("part-*.parquet"))


def remove_parts(parts: Path) -> None:
    """Remove a folder of parts, if it exists; other files in it stay, and then the folder, too.

    The last part is removed first: if interrupted, what remains is the beginning of a log.
    """
    if parts.is_dir():
        for path in sorted(parts.iterdir(), reverse=True):
            if PART_NAME.fullmatch(path.name):
                path.unlink()
        with suppress(OSError):
            parts.rmdir()


def merge_parts(folder: Path, parts: Sequence[Path]) -> None:
    """Merge a run's parts into `events.parquet`, in row groups of a fixed row count.

    Raises `RunFolderError` if one of them no longer exists.
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
    """How columns are encoded: no dictionary for numbers that hardly repeat, as it costs time and
    space.
    """
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
    """The error to raise if a file could not be read; too many open files are an OSError."""
    if isinstance(error, OSError) and error.errno in NO_HANDLES:
        return OSError(error.errno, os.strerror(error.errno), str(path))
    return RunFolderError(f"{path}: not readable as Parquet ({_in_short(error)})")


def _in_short(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
