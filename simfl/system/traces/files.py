"""Reads JSON and CSV files; errors name the file."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, TextIO, TypeVar

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.system.traces.tables import MAXIMUM_ROWS, TraceError, require_file

Content = TypeVar("Content", dict[str, Any], list[Any])

LONGEST_LINE = 1_000_000
"""The most characters in a table's line; longer ones are read in pieces, and are not rows."""


def read_json(path: Path, kind: type[Content]) -> Content:
    """The JSON object or array in a file; TraceError if it is absent or of another type."""
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise TraceError(f"{path}: no such file") from None
    except OSError as error:
        raise TraceError(f"{path}: an unreadable file ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise _not_utf8(path, error) from error
    except ValueError as error:
        raise TraceError(f"{path}: not JSON: {error}") from error
    except RecursionError:
        raise TraceError(f"{path}: not JSON: nested without end; accepted: a few levels") from None
    if not isinstance(content, kind) or not content:
        what = {"dict": "object", "list": "array"}[kind.__name__]
        raise TraceError(f"{path}: accepted: a JSON {what} that is not empty")
    return content


def as_number(value: object) -> float:
    """A JSON number as float; NaN for anything else, infinite if it is too large."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return float("nan")
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def read_numbers(path: Path, columns: Sequence[str]) -> FloatArray:
    """The named columns of a table (.csv or .csv.gz), shape (rows, columns).

    TraceError if columns are missing or the file is unreadable; "nan" and "inf" are refused.
    """
    with _opened(path) as file:
        rows = (_numbers(path, *row) for row in _rows(path, file, columns))
        numbers = np.fromiter(chain.from_iterable(rows), dtype=float)
    return numbers.reshape(-1, len(columns))


def read_texts(path: Path, columns: Sequence[str]) -> list[tuple[int, list[str]]]:
    """The named columns of such a table as text, each row with its line."""
    with _opened(path) as file:
        return [(line, cells) for line, cells, _ in _rows(path, file, columns)]


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    """A table opened for reading; errors within the block become a TraceError."""
    require_file(path)
    try:
        with (gzip.open if path.suffix == ".gz" else open)(
            path, "rt", encoding="utf-8-sig"
        ) as file:
            yield file
    except UnicodeDecodeError as error:
        raise _not_utf8(path, error) from error
    except csv.Error as error:
        raise TraceError(f"{path}: not a table: {error}") from error
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"{path}: an unreadable file ({error})") from error


def _rows(
    path: Path, file: TextIO, columns: Sequence[str]
) -> Iterator[tuple[int, list[str], list[str]]]:
    """For each row its line, the named columns ("" if the row is too short), and all cells."""
    reader = csv.reader(iter(lambda: file.readline(LONGEST_LINE), ""))
    header = next(reader, [])
    if any(header.count(name) != 1 for name in columns):
        raise TraceError(f"{path}: accepted: a table with the columns {', '.join(columns)}")
    places = [header.index(name) for name in columns]
    for count, row in enumerate(filter(None, reader), start=1):
        if count > MAXIMUM_ROWS:
            raise TraceError(f"{path}: found more rows than the {MAXIMUM_ROWS:,} that are accepted")
        yield reader.line_num, [row[at] if at < len(row) else "" for at in places], row


def _numbers(path: Path, line: int, cells: Sequence[str], row: Sequence[str]) -> list[float]:
    try:
        numbers = [float(cell) for cell in cells]
    except ValueError:
        numbers = [float("nan")]
    if not all(abs(number) < float("inf") for number in numbers):
        found = repr(",".join(row))
        shown = found if len(found) <= 80 else f"{found[:77]}..."
        raise TraceError(f"{path}:{line}: accepted: numbers, found {shown}")
    return numbers


def _not_utf8(path: Path, error: UnicodeDecodeError) -> TraceError:
    return TraceError(f"{path}: a byte that is not UTF-8 at offset {error.start}; accepted: UTF-8")
