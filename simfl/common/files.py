"""Files that simfl writes: atomically, and verified when read back."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NewType

NO_HANDLES = frozenset({errno.EMFILE, errno.ENFILE})
"""What the system says where too many files are open: no fault of the one that comes next."""


class DataPath(str):
    """The path of a part's file or folder: beside the scenario that names it, if it is there.

    Else as it was written, for the part to look for it below the data root.
    """

    __slots__ = ()


TracePath = NewType("TracePath", Path)
"""The path of a part's table: beside the scenario that names it, else below the data root."""


class DataMissing(ValueError):
    """The files of a data set or a trace are not there; the message says what to put where."""


class RunFolderError(ValueError):
    """A folder that is not a readable run; the message says what is wrong with it."""


@contextmanager
def replacing(path: Path, ending: str = ".partial") -> Iterator[Path]:
    """A file beside `path` to write to, which takes its place when the block ends.

    `path` is the old file or the new one, never half. A link of its name is replaced; what is
    neither a file nor a link (`/dev/stdout`, a pipe) is written to directly. What fails leaves no
    half-written file: on a full disk its room is needed for saying so. Raises `OSError` where the
    disk refuses, of `path`: nobody else knows the file beside it.
    """
    if path.exists() and not path.is_file():
        with naming(path):
            yield path
        return
    partial = path.with_suffix(ending)
    try:
        partial.unlink(missing_ok=True)  # were it a link, what it leads to would be overwritten
        with naming(path):
            yield partial
        partial.replace(path)
    except Exception as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and str(error.filename) == str(partial):
            error.filename = str(path)
        raise


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """What the system refuses while `path` is written is said of it: a full disk names no file."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename, error.strerror = str(path), os.strerror(error.errno)
        raise


def digest_of(path: Path) -> str:
    """SHA-256 of a file's bytes, as hexadecimal digits; raises `OSError`."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_of(path: Path) -> str:
    """What lies in a file, as digits: equal for equal contents, wherever they lie.

    Of a folder its files' names and sizes, for they may be many. Raises `OSError`.
    """
    if path.is_dir():
        inside = sorted((one.relative_to(path).as_posix(), one) for one in path.rglob("*"))
        listed = [[name, one.stat().st_size] for name, one in inside if one.is_file()]
        return hashlib.sha256(json.dumps(listed).encode()).hexdigest()
    found = path.stat()
    return _content(str(path.absolute()), found.st_size, found.st_mtime_ns, found.st_ino)


@lru_cache(maxsize=256)
def _content(path: str, *_: int) -> str:
    """`digest_of` a file, read again only when it was changed: a study asks once per run."""
    return digest_of(Path(path))


def sealed_line(key: str, fact: Any) -> str:
    """A fact under its key as one line of JSON with a digest of both: [key, fact, digest]."""
    return json.dumps([key, fact, _seal(key, fact)]) + "\n"


def open_line(line: bytes) -> tuple[str, Any] | None:
    """Key and fact of a `sealed_line`; None for any other line, however it came about."""
    try:
        key, fact, seal = json.loads(line)
        if seal != _seal(key, fact):
            return None
    except (ValueError, TypeError, RecursionError):
        return None
    return key, fact


def _seal(key: str, fact: Any) -> str:
    """64 bits: ample to notice damage; it is no protection from forgers."""
    text = json.dumps([key, fact]).encode()
    return hashlib.blake2b(text, digest_size=8).hexdigest()
