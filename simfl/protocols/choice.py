"""Checks of the clients that a part has chosen."""

from __future__ import annotations

from typing import Any

import numpy as np

from simfl.common.amounts import distinct_of
from simfl.common.arrays import IntArray
from simfl.common.contract import PartMisbehaves, named, short


def numbers_among(players: IntArray, shown: IntArray, decision: Any, part: Any) -> IntArray:
    """The clients that a selection chose, checked.

    `players` were given to it as the array `shown`, which it may have changed. Raises
    `PartMisbehaves`.
    """
    if decision is shown and np.array_equal(shown, players):
        return players
    chosen = distinct_of(players, decision)
    if chosen is None or not chosen.size:
        raise PartMisbehaves(
            f"{named(part, 'decide')} must choose among the clients it is given:"
            f" at least one of their numbers, each once; found {short(decision)}"
        )
    return chosen
