"""Shares of a figure's variance that sampled keys explain alone, from polynomials in each key.

Polynomial chaos by regression (Sudret, Reliab. Eng. Syst. Saf. 93:964, 2008): the figure is taken
for a sum of one smooth function per key, fitted for all keys together, so that the other keys do
not look like chance. Jumps and waves within a key's interval are smoothed, and so explain less than
they do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.polynomial import legendre

from simfl.common.arrays import FloatArray, IntArray
from simfl.study.comparisons import all_the_same

SMOOTHED = (
    "indices of sampled keys take a figure for smooth in each key: a key at which it jumps, or"
    " rises and falls several times, looks less important than it is"
)
"""Said below such indices."""

HIGHEST_DEGREE = 16
SETTINGS_PER_TERM = 3
"""At least so many settings for each term of the sum, except that of a square."""


def explained_by_each(
    values: FloatArray, keys: Sequence[FloatArray], levels: Sequence[IntArray], noise: float
) -> FloatArray:
    """The share of the variance of `values` (settings,) that each of `keys` explains, (keys,).

    Keys and `levels` (numbers of the levels of all other factors) have an entry per setting. The
    squares of fitted terms are corrected for what they are by chance, so that the share of a key
    without influence is about 0, and may be negative. `noise` is the variance of each value that is
    due to few seeds. NaN if nothing varies, if there are fewer settings than terms, or if
    everything may be noise.
    """
    unknown = np.full(len(keys), np.nan)
    size = values.size
    rest = float(((values - values.mean()) ** 2).sum()) - noise * (size - 1) if size else 0.0
    if size < 2 or all_the_same(values) or rest <= 0:
        return unknown
    beside = [pd.get_dummies(one, drop_first=True).to_numpy(dtype=float) for one in levels]
    free = size - 1 - sum(one.shape[1] for one in beside)
    degree = (size // SETTINGS_PER_TERM - size + free) // len(keys)
    degree = max(2 if free >= 2 * len(keys) + 2 else 1, min(degree, HIGHEST_DEGREE))
    terms = [_polynomials(key, degree) for key in keys]
    design = np.concatenate([np.ones((size, 1)), *terms, *beside], axis=1)
    inverse = np.linalg.pinv(design)
    left = values - design @ (fitted := inverse @ values)
    freedom = size - int(np.linalg.matrix_rank(design))
    if freedom < 1:
        return unknown
    covariance = inverse @ inverse.T * float(left @ left) / freedom
    shares, begin = [], 1
    for own in terms:
        its = slice(begin, begin := begin + own.shape[1])
        explained = float(((own @ fitted[its]) ** 2).sum())
        chance = float(np.einsum("ij,jk,ik->", own, covariance[its, its], own))
        shares.append((explained - chance) / rest)
    return np.array(shares)


def _polynomials(key: FloatArray, degree: int) -> FloatArray:
    """Legendre polynomials of a key's ranks, (settings, degree)."""
    ranks = 2.0 * (pd.Series(key).rank().to_numpy() - 0.5) / key.size - 1.0
    values = legendre.legvander(ranks, degree)[:, 1:]
    centred: FloatArray = values - values.mean(axis=0)
    return centred
