"""How many values of a message a sparse codec keeps: its size and its values depend on it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import IntArray


def kept_values(share: float, values: ArrayLike) -> IntArray:
    """A share of so many values, rounded up: at least one of some."""
    values = np.asarray(values)
    # Rounded first, since 0.1 * 30 is slightly above 3 in floating point.
    kept = np.ceil(np.round(share * values, 6)).astype(np.int64)
    return np.maximum(kept, values > 0)
