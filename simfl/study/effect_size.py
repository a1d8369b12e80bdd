"""Effect sizes of paired differences relative to the spread of runs, with intervals.

Hedges' g_av: the mean difference over the root mean square of the two standard deviations,
corrected for small samples (Lakens, Front. Psychol. 4:863, 2013, Eqs. 10 and 4).
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from simfl.common.arrays import FloatArray
from simfl.study.figures import Bounds

FEWEST_SEEDS = 3
LARGE = 300.0
"""Above this t, the error of the mean is negligible compared with that of the spread."""


def effect_size(pairs: FloatArray, difference: float) -> float:
    """g_av of `pairs` (seeds, 2) with this mean `difference`; NaN with few seeds or without a
    spread.
    """
    count = len(pairs)
    spread = _spread(pairs) if count >= FEWEST_SEEDS else 0.0
    if not spread:
        return math.nan
    return difference / spread * (1 - 3 / (4 * (count - 1) - 1))


def effect_interval(pairs: FloatArray, differences: FloatArray, confidence: float) -> Bounds:
    """A confidence interval for the effect in the population of seeds.

    From the noncentral t distribution, taking the correlation of the pairs as known (Algina,
    Keselman, Educ. Psychol. Meas. 63:537, 2003). NaN with few seeds, or if one of the spreads is
    unknown.
    """
    count = len(pairs)
    deviation = float(differences.std(ddof=1)) if count >= FEWEST_SEEDS else 0.0
    spread = _spread(pairs) if deviation else 0.0
    if not spread:
        return math.nan, math.nan
    freedom, unit = count - 1.0, deviation / math.sqrt(count)
    t = float(differences.mean()) / unit
    tail = (1 - confidence) / 2
    if abs(t) > LARGE:
        ends = sorted(
            t * math.sqrt(special.chdtri(freedom, one) / freedom) for one in (tail, 1 - tail)
        )
    else:
        ends = [float(special.nctdtrinc(freedom, one, t)) for one in (1 - tail, tail)]
    return ends[0] * unit / spread, ends[1] * unit / spread


def _spread(pairs: FloatArray) -> float:
    return math.sqrt(float(np.var(pairs, axis=0, ddof=1).mean()))
