"""How far the settings of a search are from its goal.

A search learns more from a setting that just misses a bound than from one that fails outright. So
an exceeded bound has a size (`bound_excess.py`), and so does an objective that is not known.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from simfl.study.best import can_be_compared
from simfl.study.bound_excess import WORST, excesses, is_known, missed
from simfl.study.studyfile import Search


def shortfalls(runs: pd.DataFrame, search: Search) -> pd.DataFrame:
    """A row per setting and a column per requirement; 0 if it is met.

    Requirements are: every bound, and that every objective is known (means over the seeds); and
    that the figures are comparable with those of the other settings (`comparable.py`).
    """
    unknown = {
        name: np.where(is_known(runs, name), 0.0, missed(runs, name)) for name in search.objectives
    }
    found = pd.DataFrame(unknown, index=runs.index).join(excesses(runs, search.bounds()))
    by_point = found.groupby(runs["point"].to_numpy()).mean()
    alike = can_be_compared(runs.groupby("point").first(), search.figures)
    return by_point.assign(comparable=np.where(alike, 0.0, WORST))
