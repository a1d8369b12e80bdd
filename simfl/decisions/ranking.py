"""The idle edge server with the highest score; ties are common."""

from __future__ import annotations

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.decisions.views import EdgeView

DECIMALS = 9
"""Scores that agree to this many decimals are tied, because sums of equal shares differ by
rounding."""


def highest(view: EdgeView, scores: FloatArray) -> int:
    """The idle edge server with the highest score; `scores` has one per edge server.

    Ties go to the least recently dispatched, then to the lowest number.
    """
    idle = np.flatnonzero(view.idle)
    rounded = np.round(scores[idle], DECIMALS)
    order = np.lexsort((idle, view.last_dispatch_round[idle], -rounded))
    return int(idle[order[0]])


def of_idle(view: EdgeView, scores: FloatArray) -> list[float]:
    """The scores of the idle edge servers, for the log."""
    return [float(score) for score in scores[view.idle]]
