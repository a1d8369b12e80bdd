"""Claims of a paper against the values of an exhibit: which hold, which fail.

A claims file names the paper and lists claims:

    id, statement, source   what is claimed, and where
    about                   ours: an expectation, a control or a set-up of our own; absent: the
                            paper's claim
    kind                    hard: follows from the mathematics, one seed that breaks it makes it
                            FAIL; directional: judged by the 95 % interval of the mean over the
                            seeds; soft: depends on what is not stated, its figure is a NOTE
    figure                  the command of the exhibit that it belongs to
    metric                  "FIGURE/NAME", "FIGURE", or the difference "A - B" of the same seed
    at_least, at_most       the margin
    data                    the data sets that it is about (absent: all that are at hand)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from paper.tables import END
from simfl.study.means import mean_interval

KINDS = ("hard", "directional", "soft")
ABOUT = ("paper", "ours")
DIFFERENCE = "difference"
"""The name of a figure that can have any value."""


def read_claims(file: Path) -> list[dict[str, Any]]:
    """The claims of a file; raises ValueError for an unknown kind or a missing margin."""
    claims: list[dict[str, Any]] = yaml.safe_load(file.read_text(encoding="utf-8"))["claims"]
    for one in claims:
        if one["kind"] not in KINDS:
            raise ValueError(f"{one['id']}: kind {one['kind']!r}; accepted: {', '.join(KINDS)}")
        if one.get("about", "paper") not in ABOUT:
            raise ValueError(f"{one['id']}: about {one['about']!r}; accepted: {', '.join(ABOUT)}")
        if "at_least" not in one and "at_most" not in one:
            raise ValueError(f"{one['id']}: give at_least or at_most")
    return claims


def check_claims(file: Path, exhibit: str, values: pd.DataFrame) -> pd.DataFrame:
    """The verdict on every claim about `exhibit`, one row per claim and data set at hand.

    Columns: verdict (HOLDS, FAILS, UNDECIDED, NOTE, SKIPPED), claim, about, data, value (mean over
    the seeds), side (1: the value is only known to be at least that, -1: at most), low and high
    (95 % interval, of one seed none; the range of the seeds for a hard claim), margin, seeds,
    statement.
    SKIPPED: none of the claim's data sets is at hand, or the exhibit has no such value.
    """
    rows = []
    at_hand = [str(data) for data in pd.unique(values["data"])]
    for claim in read_claims(file):
        if claim["figure"] == exhibit:
            about = claim.get("data", at_hand)
            for data in [one for one in about if one in at_hand] or [", ".join(about)]:
                measured, side = bounded(values[values["data"] == data], claim["metric"])
                rows.append(_judged(claim, data, measured, side))
    return pd.DataFrame(rows)


def metric(values: pd.DataFrame, expression: str) -> np.ndarray:
    """The expression's value per seed that has all of it; empty where none has."""
    table = _terms(values, expression, _term)
    first = table.iloc[:, 0].to_numpy(dtype=float)
    return first - table.iloc[:, 1:].sum(axis=1, skipna=False).to_numpy(dtype=float)


def bounded(values: pd.DataFrame, expression: str) -> tuple[np.ndarray, int]:
    """`metric` with what is known of runs that never got to what a figure is until.

    FIGURE_end, what such a run had spent by its end, is less than it would have needed, so that
    what is computed from it lies below the true value (side 1) or above it (-1); of seeds with
    bounds to either side nothing is known (NaN), as of a figure without one. 0: no bound is used.
    """
    reached = _terms(values, expression, _term)
    at_least = _terms(values, expression, _term_or_end)
    signs = np.array([1.0] + [-1.0] * (reached.shape[1] - 1))
    below = (reached.isna().to_numpy() & at_least.notna().to_numpy()) * signs
    sides = np.unique(below[below != 0.0])
    if sides.size != 1:
        return reached.to_numpy(dtype=float) @ signs, 0
    return at_least.to_numpy(dtype=float) @ signs, int(sides[0])


def in_words(checked: pd.DataFrame) -> pd.DataFrame:
    """The verdicts of `check_claims` as a table of texts, the verdict being its index."""

    def number(value: float) -> str:
        return f"{value:.4g}"

    def interval(low: float, high: float) -> str:
        if np.isnan(low):
            return "-"
        if np.isinf(high):
            return f"above {number(low)}"
        return f"below {number(high)}" if np.isinf(low) else f"{number(low)} to {number(high)}"

    sides = {1: "> ", 0: "", -1: "< "}
    table = pd.DataFrame(
        {
            "claim": checked["claim"] + ", " + checked["data"],
            "value": checked["side"].map(sides) + checked["value"].map(number).astype(str),
            "interval": list(map(interval, checked["low"], checked["high"])),
            "claimed": checked["margin"],
            "seeds": checked["seeds"],
            "statement": checked["about"].map({"ours": "(ours) "}).fillna("")
            + checked["statement"],
        }
    )
    table.index = pd.Index(checked["verdict"])
    return table


def _terms(
    values: pd.DataFrame, expression: str, of: Callable[[pd.DataFrame, str], pd.Series]
) -> pd.DataFrame:
    """The terms of "A - B - ..." side by side, of the seeds that have all of them."""
    terms = [of(values, term.strip()) for term in expression.split(" - ")]
    return pd.concat(terms, axis=1, join="inner")


def _term(values: pd.DataFrame, term: str) -> pd.Series:
    figure, _, name = term.partition("/")
    rows = values[values["figure"] == figure]
    rows = rows[rows["name"] == name] if name else rows
    if rows["seed"].duplicated().any():
        raise ValueError(f"{term}: found several values of a seed, accepted: FIGURE/NAME")
    return rows.set_index("seed")["value"]


def _term_or_end(values: pd.DataFrame, term: str) -> pd.Series:
    figure, slash, name = term.partition("/")
    reached = _term(values, term)
    ends = _term(values, f"{figure}{END}{slash}{name}")
    return reached if ends.empty else reached.fillna(ends)


def _judged(claim: Mapping[str, Any], data: str, measured: np.ndarray, side: int) -> dict[str, Any]:
    low, high = _interval(claim, measured)
    # The end of the interval of bounds that is towards the true values holds for these, too.
    low, high = (-np.inf if side < 0 else low), (np.inf if side > 0 else high)
    if np.isnan(low) or np.isnan(high):
        low = high = float("nan")
    bounds = [("≥", claim.get("at_least")), ("≤", claim.get("at_most"))]
    return {
        "verdict": _verdict(claim, measured, side, low, high),
        "claim": claim["id"],
        "about": claim.get("about", "paper"),
        "data": data,
        "value": float(measured.mean()) if measured.size else float("nan"),
        "side": side,
        "low": low,
        "high": high,
        "margin": " ".join(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None),
        "seeds": measured.size,
        "statement": claim["statement"],
    }


def _interval(claim: Mapping[str, Any], measured: np.ndarray) -> tuple[float, float]:
    """The range of the seeds for hard claims, else the 95 % interval of their mean.

    One seed has no interval, and that of a figure (unlike a difference) stays where it can be.
    """
    if not measured.size or np.isnan(measured).any():
        return float("nan"), float("nan")
    if claim["kind"] == "hard":
        return float(measured.min()), float(measured.max())
    figure = claim["metric"].partition("/")[0]
    return mean_interval(measured, DIFFERENCE if " - " in claim["metric"] else figure)


def _verdict(
    claim: Mapping[str, Any], measured: np.ndarray, side: int, low: float, high: float
) -> str:
    if not measured.size:
        return "SKIPPED"
    if claim["kind"] == "soft":
        return "NOTE"
    at_least, at_most = claim.get("at_least", -np.inf), claim.get("at_most", np.inf)
    if low >= at_least and high <= at_most:
        return "HOLDS"
    # One seed is enough to break a hard claim, the whole interval must lie beyond for the others.
    if claim["kind"] == "hard":
        known = measured[~np.isnan(measured)]
        too_low = side <= 0 and (known < at_least).any()
        return "FAILS" if too_low or (side >= 0 and (known > at_most).any()) else "UNDECIDED"
    return "FAILS" if high < at_least or low > at_most else "UNDECIDED"
