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
"""The system's errors for too many open files: the file being opened is not at fault."""


class DataPath(str):
    """The path of a part's file or folder, next to the scenario that names it if it exists there.

    Otherwise the path as written; the part looks for it in the data root.
    """

    __slots__ = ()


TracePath = NewType("TracePath", Path)
"""The path of a part's table: next to the scenario that names it, otherwise in the data root."""


class DataMissing(ValueError):
    """The files of a data set or trace are missing; the message says which files to put where."""


class RunFolderError(ValueError):
    """A folder that is not a readable run; the message says what is wrong with it."""


@contextmanager
def replacing(path: Path, ending: str = ".partial") -> Iterator[Path]:
    """A temporary file next to `path`, which replaces it when the block ends.

    `path` is always either the old file or the complete new one. A link at `path` is replaced;
    anything that is neither a file nor a link (`/dev/stdout`, a pipe) is written to directly. If
    the block fails, the temporary file is deleted: on a full disk its space is needed to report the
    error. An `OSError` names `path`, since users do not know the temporary file.
    """
    if path.exists() and not path.is_file():
        with naming(path):
            yield path
        return
    partial = path.with_suffix(ending)
    try:
        partial.unlink(missing_ok=True)  # a link here would redirect the writing
        with naming(path):
            yield partial
        partial.replace(path)
    except BaseException as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and str(error.filename) == str(partial):
            error.filename = str(path)
        raise


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Adds `path` to an `OSError` that names no file, as on a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename, error.strerror = str(path), os.strerror(error.errno)
        raise


def digest_of(path: Path) -> str:
    """SHA-256 of a file's bytes in hexadecimal; raises `OSError`."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_of(path: Path) -> str:
    """A digest of a file's content in hexadecimal: equal contents have equal digests.

    For a folder, the digest of its files' names and sizes only, since they may be many. Raises
    `OSError`.
    """
    if path.is_dir():
        inside = sorted((one.relative_to(path).as_posix(), one) for one in path.rglob("*"))
        listed = [[name, one.stat().st_size] for name, one in inside if one.is_file()]
        return hashlib.sha256(json.dumps(listed).encode()).hexdigest()
    found = path.stat()
    return _content(str(path.absolute()), found.st_size, found.st_mtime_ns, found.st_ino)


@lru_cache(maxsize=256)
def _content(path: str, *_: int) -> str:
    """`digest_of` a file, cached until the file changes: a study asks once per run."""
    return digest_of(Path(path))


def sealed_line(key: str, fact: Any) -> str:
    """One line of JSON with a digest: [key, fact, digest]."""
    return json.dumps([key, fact, _seal(key, fact)]) + "\n"


def open_line(line: bytes) -> tuple[str, Any] | None:
    """Key and fact of a `sealed_line`; None for any other or damaged line."""
    try:
        key, fact, seal = json.loads(line)
        if seal != _seal(key, fact):
            return None
    except (ValueError, TypeError, RecursionError):
        return None
    return key, fact


def _seal(key: str, fact: Any) -> str:
    """A 64-bit digest: enough to detect damage, no protection against forgery."""
    text = json.dumps([key, fact]).encode()
    return hashlib.blake2b(text, digest_size=8).hexdigest()
