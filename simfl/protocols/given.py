"""Checks of the values that a protocol passes to its run."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import FloatArray, IntArray
from simfl.common.contract import short


def whole(name: str, given: Any) -> int:
    """Checks a whole number >= 0, such as a round number; raises ValueError."""
    if isinstance(given, bool) or not isinstance(given, Integral) or int(given) < 0:
        raise ValueError(f"{name}: found {short(given)}, accepted: a whole number >= 0")
    return int(given)


def numbers_of(clients: Any, of: int) -> IntArray:
    """Checks numbers of distinct clients, of so many; raises ValueError."""
    given = np.asarray(clients)
    numbers = given.ndim == 1 and (not given.size or np.issubdtype(given.dtype, np.integer))
    if not numbers or (given.size > 1 and np.unique(given).size < given.size):
        raise ValueError(
            f"clients: found {short(clients)}, accepted: an array of their numbers, each once"
        )
    unknown = given[(given < 0) | (given >= of)]
    if unknown.size:
        raise ValueError(f"clients: found {unknown[0]}, accepted: 0 to {of - 1}")
    return given.astype(np.int64, copy=False)


def versions_late(staleness: ArrayLike) -> FloatArray:
    """Checks the staleness of updates, in versions; raises ValueError."""
    given = np.atleast_1d(np.asarray(staleness))
    if given.dtype.kind not in "iuf" or not (np.isfinite(given) & (given >= 0)).all():
        raise ValueError(f"staleness: found {short(staleness)}, accepted: finite numbers >= 0")
    return given
