"""Reads pickles of plain data without executing them.

A pickle is a program: by naming a function and its arguments it runs anything when it is loaded.
This reader admits no name at all, so that nothing but dictionaries, lists, tuples, sets, numbers,
strings, bytes, booleans and None can come out. (Protocols below 4 make sets by name: refused.)
A pickle also says how much memory it wants (lengths of text, numbers of memorised objects): while
it is read, the process may grow by no more than plain data of the file's size can need.
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
"""Bytes in memory per byte of a pickle: an empty set, the largest for its size, takes 216."""

SPARE_BYTES = 2**28


class _PlainUnpickler(pickle.Unpickler):
    """Refuses every name."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        """An error that names what the pickle asked for."""
        name = f"{module_name}.{global_name}".encode("unicode_escape").decode()
        raise pickle.UnpicklingError(
            f"holds {name}; only plain containers, numbers and text are read"
        )


def read_plain_pickle(path: Path) -> Any:
    """What the pickle in `path` holds; TraceError if it is not plain data."""
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
    """More memory than that is a MemoryError inside (on Linux, which keeps such limits)."""
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
