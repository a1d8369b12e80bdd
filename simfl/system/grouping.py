"""Groups rows of one kind, to compute them together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simfl.common.arrays import IntArray


def by_value(index: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Each value in `index`, ascending, with its rows."""
    for value in np.flatnonzero(np.bincount(index)):
        yield int(value), np.flatnonzero(index == value)
