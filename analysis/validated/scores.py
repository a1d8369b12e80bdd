"""How good predictions with intervals are: coverage, width, interval score, rankings.

A prediction is a row of a table with `measured`, `predicted`, `low` and `high` in seconds, and the
same three of the baseline (`plain`, `plain_low`, `plain_high`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from simfl.calibration.terms import ENDS, LEVEL
from simfl.common.arrays import FloatArray

BANDS = (0.5, 0.7, 0.9, 0.99)
"""Where bands of the probabilities of rankings begin; the last ends at 1."""


@dataclass(frozen=True, eq=False)
class Held:
    """A measurement and what was predicted without it.

    `logs` (draws) are draws of the logarithm of the seconds; `missing` names the terms that no row
    behind the prediction told. `plain` is the baseline's prediction and interval, None where a
    device had fewer than two rows to have a spread from.
    """

    family: str
    device: str
    subject: str
    measured: float
    predicted: float
    interval: tuple[float, float]
    missing: Sequence[str]
    logs: FloatArray
    plain: tuple[float, float, float] | None

    @property
    def cells(self) -> dict[str, object]:
        """As a row of a table."""
        low, high = self.interval
        plain, plain_low, plain_high = self.plain or (np.nan,) * 3
        return {
            "family": self.family,
            "device": self.device,
            "subject": self.subject,
            "measured": self.measured,
            "predicted": self.predicted,
            "low": low,
            "high": high,
            "plain": plain,
            "plain_low": plain_low,
            "plain_high": plain_high,
            "missing": " ".join(self.missing),
        }


def plain_interval(
    operations: FloatArray, seconds: FloatArray, asked: float
) -> tuple[float, float, float] | None:
    """The baseline: one rate and one lognormal error per device, from its own rows.

    `operations` and `seconds` are of the rows, `asked` operations are predicted: best, low, high.
    The interval is that of a new draw where neither mean nor variance is known (Student's t). None
    of fewer than two rows.
    """
    if len(seconds) < 2:
        return None
    logs = np.log(seconds / operations)
    spread = logs.std(ddof=1) * np.sqrt(1.0 + 1.0 / len(logs))
    low, high = logs.mean() + spread * stats.t.ppf(ENDS, len(logs) - 1)
    found = asked * np.exp([logs.mean(), low, high])
    return float(found[0]), float(found[1]), float(found[2])


def coverage(table: pd.DataFrame, prefix: str = "") -> float:
    """The share of the measurements that lie in their intervals."""
    low, high = table[f"{prefix}low"], table[f"{prefix}high"]
    return float(((low <= table["measured"]) & (table["measured"] <= high)).mean())


def relative_width(table: pd.DataFrame) -> float:
    """The median of an interval's width over what is predicted."""
    return float(((table["high"] - table["low"]) / table["predicted"]).median())


def interval_score(table: pd.DataFrame, prefix: str = "") -> float:
    """The mean interval score (Gneiting and Raftery 2007) of the logarithm of the seconds.

    An interval's width, and 2 / (1 - `LEVEL`) times how far outside the measurement lies: the
    smaller the better, and no interval has a better expectation than the true one.
    """
    low, high = np.log(table[f"{prefix}low"]), np.log(table[f"{prefix}high"])
    at = np.log(table["measured"])
    outside = np.maximum(low - at, 0.0) + np.maximum(at - high, 0.0)
    return float((high - low + 2.0 / (1.0 - LEVEL) * outside).mean())


def rankings(held: Sequence[Held]) -> pd.DataFrame:
    """All pairs of one device's models, and of one model's devices: `probability`, `right`.

    The probability is that of the order that is called, at least 0.5; `right` says whether the
    measurements have that order. Measurements that are equal have none.
    """
    rows = []
    for place, one in enumerate(held):
        for other in held[:place]:
            is_pair = (one.device == other.device) != (one.subject == other.subject)
            if not is_pair or one.measured == other.measured:
                continue
            longer = float((one.logs > other.logs).mean())
            called = longer >= 0.5
            rows.append(
                {
                    "family": one.family,
                    "probability": max(longer, 1.0 - longer),
                    "right": called == (one.measured > other.measured),
                }
            )
    return pd.DataFrame(rows, columns=["family", "probability", "right"])


def factor_needed(ratios: FloatArray, level: float = LEVEL) -> float:
    """The smallest factor within which a share of the ratios, or of their inverses, lies."""
    off = np.sort(np.abs(np.log(ratios)))
    return float(np.exp(off[int(np.ceil(level * len(off))) - 1]))


def within(ratios: FloatArray, factor: float) -> float:
    """The share of the ratios that lie within a factor: what a default spread would cover."""
    return float((np.abs(np.log(ratios)) <= np.log(factor)).mean())
