"""Reads pickles of plain data without executing them.

A pickle is a program: by naming a function and its arguments, it can run anything when loaded. This
reader refuses all names, so that the result can only consist of dictionaries, lists, tuples, sets,
numbers, strings, bytes, booleans and None. (Protocols below 4 make sets by name, and so are
refused.) A pickle also determines how much memory is allocated (lengths of text, numbers of
memorised objects): during reading, the process may grow by no more than plain data of the file's
size can need.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from simfl.system.traces.tables import TraceError

MOST_GROWTH = 256
"""Bytes in memory per byte of a pickle: the largest ratio is that of an empty set, 216 bytes."""

SPARE_BYTES = 2**28


class _PlainUnpickler(pickle.Unpickler):
    """Refuses all names."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        """Raises an error with the requested name."""
        name = f"{module_name}.{global_name}".encode("unicode_escape").decode()
        raise pickle.UnpicklingError(
            f"holds {name}; only plain containers, numbers and text are read"
        )


def read_plain_pickle(path: Path) -> Any:
    """The content of the pickle in `path`; TraceError if it is not plain data."""
    try:
        with (
            _bounded_growth(MOST_GROWTH * path.stat().st_size + SPARE_BYTES),
            path.open("rb") as file,
        ):
            return _PlainUnpickler(file).load()
    except FileNotFoundError:
        raise TraceError(f"{path}: no such file") from None
    except OSError as error:
        raise TraceError(f"{path}: an unreadable file ({error.strerror})") from error
    except (
        pickle.UnpicklingError,
        EOFError,
        ValueError,
        IndexError,
        KeyError,
        TypeError,
        AttributeError,
        MemoryError,
        UnicodeDecodeError,
        OverflowError,
        RecursionError,
    ) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise TraceError(f"{path}: not a pickle of plain data: {reason}") from error


@contextmanager
def _bounded_growth(growth_bytes: int) -> Iterator[None]:
    """Allocating more memory within the block is a MemoryError (only on Linux)."""
    if sys.platform != "linux":
        yield
        return
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limits = resource.getrlimit(resource.RLIMIT_AS)
    most = pages * resource.getpagesize() + growth_bytes
    if limits[0] != resource.RLIM_INFINITY:
        most = min(most, limits[0])
    resource.setrlimit(resource.RLIMIT_AS, (most, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
