"""Bounds on figures, such as "<= 3600", and whether runs are known to meet them."""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from simfl.common.arrays import BoolArray, FloatArray
from simfl.study.targets import ends, target_of

_TEXT = re.compile(r"\s*(<=|>=|<|>)\s*(\S+)\s*")
_HOLDS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}


@dataclass(frozen=True)
class Bound:
    """A comparison with a number, in the figure's own unit."""

    sign: str
    value: float

    def kept(self, runs: pd.DataFrame, metric: str) -> tuple[BoolArray, BoolArray]:
        """For each run, whether it is known to meet the bound, and known not to.

        A run that missed a target would have needed more than it had spent at its end, or
        infinitely much if it diverged. A run that diverged meets no bound of another figure.
        """
        values = runs[metric].to_numpy(dtype=float)
        diverged = (runs["status"] == "diverged").to_numpy()
        known = ~np.isnan(values)
        if target_of(metric) is None:
            holds = self._holds(values) & ~diverged
            return holds, diverged | (known & ~holds)
        least = np.where(known, values, np.where(diverged, math.inf, ends(runs, metric)))
        for_good = known | diverged
        above = self.sign in (">", ">=")
        passed = ~for_good & (least >= self.value)
        holds = (for_good & self._holds(least)) | (passed & above)
        return holds, (for_good & ~holds) | (passed & (not above))

    def _holds(self, values: FloatArray) -> BoolArray:
        found: BoolArray = _HOLDS[self.sign](values, self.value)
        return found

    def __str__(self) -> str:
        return f"{self.sign} {self.value:g}"


def bound(text: str) -> Bound:
    """The bound in a text such as "<= 3600"; raises ValueError if there is none."""
    found = _TEXT.fullmatch(text)
    try:
        value = float(found[2]) if found else math.nan
    except ValueError:
        value = math.nan
    if found is None or not math.isfinite(value):
        raise ValueError("accepted: <=, <, >= or > and a number, as '<= 3600'")
    return Bound(found[1], value)
