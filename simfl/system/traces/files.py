"""Reading JSON and CSV files whose errors name the file."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from simfl.system.traces.tables import TraceError

Content = TypeVar("Content", dict[str, Any], list[Any])


def read_json(path: Path, kind: type[Content]) -> Content:
    """The JSON object or array in a file; TraceError if it is absent or something else."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TraceError(f"{path}: no such file") from None
    except ValueError as error:
        raise TraceError(f"{path}: not JSON: {error}") from error
    if not isinstance(content, kind) or not content:
        what = {"dict": "object", "list": "array"}[kind.__name__]
        raise TraceError(f"{path}: accepted: a JSON {what} that is not empty")
    return content


def read_numbers(path: Path, columns: Sequence[str]) -> Iterator[list[float]]:
    """The named columns of a table (.csv or .csv.gz), row by row; TraceError if it has none such.

    Numbers written as "nan" or "inf" are refused.
    """
    if not path.is_file():
        raise TraceError(f"{path}: no such file")
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if not set(columns) <= set(reader.fieldnames or ()):
            raise TraceError(f"{path}: accepted: a table with the columns {', '.join(columns)}")
        for row in reader:
            try:
                numbers = [float(row[name]) for name in columns]
            except (TypeError, ValueError):
                numbers = [float("nan")]
            if not all(abs(number) < float("inf") for number in numbers):
                raise TraceError(f"{path}:{reader.line_num}: accepted: numbers, found {row}")
            yield numbers
