"""Memory buffers that the process reuses.

Training frees and takes the same megabytes at every step. By default the C library gives freed
memory of that size back to the operating system, which hands it out again page by page, filled with
zeros: a quarter of the time of a convolutional network on a CPU.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache

LARGEST_KEPT_BYTES = 32 << 20
"""The largest piece that the C library lets be kept; larger ones go back at once."""

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
"""`mallopt`'s names for: how much may be free before it is given back, how much to ask for beyond
what is needed, from what size to ask the operating system each time."""


@cache
def keep_freed_memory() -> bool:
    """Keep freed memory for the next step; returns whether this C library (glibc) can.

    Holds for the whole process, and changes no result. The most that the process ever held is
    what it goes on holding, until `return_freed_memory`.
    """
    mallopt = _c_function("mallopt")
    if mallopt is None:
        return False
    kept = [
        mallopt(_MMAP_THRESHOLD, LARGEST_KEPT_BYTES),
        mallopt(_TRIM_THRESHOLD, 2**31 - 1),
        mallopt(_TOP_PAD, LARGEST_KEPT_BYTES),
    ]
    return all(kept)


def return_freed_memory() -> bool:
    """Give what is free now back to the operating system; whether this C library (glibc) can."""
    trim = _c_function("malloc_trim")
    if trim is None:
        return False
    trim(0)
    return True


def _c_function(name: str) -> Callable[..., int] | None:
    """A function of the C library; None where it is another one than Linux's usual."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        function: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return None
    return function
