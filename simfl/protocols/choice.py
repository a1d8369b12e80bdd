"""What a selection rule chose, held to its contract."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]


def numbers_among(players: IntArray, decision: Any, who: str) -> IntArray:
    """The clients that a selection chose, if they are what it may choose; raises ValueError."""
    chosen = np.asarray(decision)
    if chosen is players:
        return players
    if (
        chosen.ndim != 1
        or not chosen.size
        or not np.issubdtype(chosen.dtype, np.integer)
        or np.unique(chosen).size != chosen.size
        or not np.isin(chosen, players).all()
    ):
        raise ValueError(
            f"{who} must choose among the clients it is given: at least one of their numbers, each"
            f" once; found {chosen[:10].tolist() if chosen.ndim else decision}"
        )
    return chosen.astype(np.int64)
