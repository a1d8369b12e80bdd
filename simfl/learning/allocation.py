"""Makes the C library keep freed memory for reuse.

Training frees and allocates the same megabytes at every step. By default the C library returns
freed memory of that size to the operating system, which then provides it again page by page, filled
with zeros. This takes a quarter of the time of a convolutional network on a CPU.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache

LARGEST_KEPT_BYTES = 32 << 20
"""The largest block that the C library can be told to keep; larger ones are returned at once."""

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
"""`mallopt`'s parameters: how much may be free before it is returned, how much to allocate in
excess, and the size from which each block is allocated by the operating system.
"""


@cache
def keep_freed_memory() -> bool:
    """Keep freed memory for the next step; returns whether this C library (glibc) can.

    This holds for the whole process, and changes no result. The process then keeps its peak memory
    until `return_freed_memory`.
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
    """Return free memory to the operating system; returns whether this C library (glibc) can."""
    trim = _c_function("malloc_trim")
    if trim is None:
        return False
    trim(0)
    return True


def _c_function(name: str) -> Callable[..., int] | None:
    """A function of the C library; None if the library does not have it."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        function: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return None
    return function
