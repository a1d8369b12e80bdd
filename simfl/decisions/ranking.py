"""Which idle edge server comes first, by scores of which ties are common."""

from __future__ import annotations

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.decisions.views import EdgeView

DECIMALS = 9
"""Scores that agree to this many decimals are tied: sums of equal shares differ in rounding."""


def highest(view: EdgeView, scores: FloatArray) -> int:
    """The idle edge server of the highest score, one of `scores` per edge server.

    Ties go to the least recently dispatched, then to the lowest number.
    """
    idle = np.flatnonzero(view.idle)
    rounded = np.round(scores[idle], DECIMALS)
    order = np.lexsort((idle, view.last_dispatch_round[idle], -rounded))
    return int(idle[order[0]])


def of_idle(view: EdgeView, scores: FloatArray) -> list[float]:
    """The scores of the idle edge servers, for the log."""
    return [float(score) for score in scores[view.idle]]
