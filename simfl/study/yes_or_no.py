"""Intervals of yes-or-no figures over few seeds.

Five times yes does not mean always yes, yet Student's interval of five equal values has no width.
"""

from __future__ import annotations

from scipy import special

from simfl.common.arrays import FloatArray
from simfl.study.figures import Bounds


def of_share(yes: float, count: int, confidence: float) -> Bounds:
    """Clopper and Pearson's interval (Biometrika 26:404, 1934) of a share, `yes` of `count`.

    `yes` may be fractional, such as a sum of probabilities.
    """
    tail = (1 - confidence) / 2
    low = float(special.betaincinv(yes, count - yes + 1, tail)) if yes > 0 else 0.0
    high = float(special.betaincinv(yes + 1, count - yes, 1 - tail)) if yes < count else 1.0
    return low, high


def of_difference(differences: FloatArray, confidence: float) -> Bounds:
    """An interval for the mean of paired differences, each -1, 0 or 1.

    The mean is the share of 1 minus the share of -1, and each share lies in its own interval. By
    Bonferroni's inequality both hold together, so the coverage is at least `confidence`.
    """
    each = (1 + confidence) / 2
    more = of_share(int((differences > 0).sum()), differences.size, each)
    fewer = of_share(int((differences < 0).sum()), differences.size, each)
    return more[0] - fewer[1], more[1] - fewer[0]


def p_value(differences: FloatArray) -> float:
    """McNemar's exact test (Psychometrika 12:153, 1947) of as many 1 as -1, ignoring zeros."""
    more, fewer = int((differences > 0).sum()), int((differences < 0).sum())
    if more == fewer:
        return 1.0
    return min(1.0, 2.0 * float(special.bdtr(min(more, fewer), more + fewer, 0.5)))
