"""Files that are there whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Where to write what `path` will hold once the block has ended without an error.

    A file or a link of that name is replaced, what a link leads to stays as it is. What is neither
    (`/dev/stdout`, a pipe) is written to directly. Raises `OSError`.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    partial = path.with_suffix(".partial")
    try:
        partial.unlink(missing_ok=True)  # were it a link, what it leads to would be overwritten
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
