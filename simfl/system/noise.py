"""Random factors on durations."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import FloatArray
from simfl.streams import Streams


def lognormal(
    streams: Streams, sigma: ArrayLike, component: str, entity: ArrayLike, counter: ArrayLike
) -> FloatArray:
    """Lognormal factors with mean 1; with a spread of 0 they are 1, and nothing is drawn."""
    if not np.any(sigma):
        return np.ones(np.broadcast_shapes(np.shape(entity), np.shape(counter)))
    return streams.lognormal(sigma, component, entity, counter)
