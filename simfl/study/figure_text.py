"""Figures as text, with what is known of them, for terminals, pages and scripts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from simfl.study.figures import Bounds
from simfl.study.targets import asked_by, target_of

Row = Mapping[Any, Any]
"""A row of a table, as from `to_dict("records")`."""

R2 = "r2"
"""The column of settings' means that says whose accuracy is R^2, where tasks differ."""

LEAST_SKEW = 0.05
"""An interval that is off-centre by at most this share of its half width is shown with ±."""


def in_cell(setting: Row, metric: str) -> str:
    """A figure of a row of `point_means` for a table: mean, median or bound, with its interval.

    Behind a mean to which some of the runs have nothing to say stands how many do, and R^2 before
    the accuracy of a regression among settings that are none.
    """
    if setting.get(R2) and "accuracy" in metric and target_of(metric) is None:
        return f"R^2 {_in_cell(setting, metric)}"
    return _in_cell(setting, metric)


def _in_cell(setting: Row, metric: str) -> str:
    if math.isnan(setting[metric]):
        text = in_words(setting[f"{metric}_median"], setting[f"{metric}_above"])
        low, high = (setting[f"{metric}_median_{end}"] for end in ("low", "high"))
        if text == "-" or math.isnan(low):
            return text
        upto = "or more" if math.isinf(high) else f"to {high:.4g}"
        return f"{text} ({low:.4g} {upto})"
    ends = setting[f"{metric}_low"], setting[f"{metric}_high"]
    text = with_interval(setting[metric], setting[f"{metric}_ci"], ends)
    count, runs = setting[f"{metric}_count"], setting[f"{metric}_runs"]
    return text if count == runs else f"{text} ({count}/{runs})"


def with_interval(mean: float, half: float, ends: Bounds | None = None) -> str:
    """A mean with two significant digits of the half width, and as many decimals of the mean.

    If the interval was cut, its `ends` are shown.
    """
    if math.isnan(half):
        return in_digits(mean)
    low, high = ends or (mean - half, mean + half)
    whole = low == mean - half and high == mean + half
    if not 1e-6 < half < 1e6:
        # Enough digits to state the mean as precisely as its interval.
        digits = 4 if half == 0 or mean == 0 else min(max(4, 2 + _tens(mean) - _tens(half)), 15)
        if whole:
            return f"{mean:.{digits}g} ±{half:.2g}"
        return f"{mean:.{digits}g} ({low:.{digits}g} to {high:.{digits}g})"
    decimals = max(1 - _tens(half), 0)
    if whole:
        return f"{mean:.{decimals}f} ±{half:.{decimals}f}"
    return f"{mean:.{decimals}f} ({low:.{decimals}f} to {high:.{decimals}f})"


def difference_in_cell(comparison: Row) -> str:
    """The difference of a row of `paired_differences` with its interval."""
    mean, low, high = (comparison[name] for name in ("difference", "ci_low", "ci_high"))
    half = max(high - mean, mean - low)
    is_even = math.isclose((low + high) / 2, mean, rel_tol=1e-9, abs_tol=1e-9 * half)
    return with_interval(mean, half, None if is_even else (low, high))


def relative_in_cell(comparison: Row) -> str:
    """The relative difference of a row of `paired_differences` with its interval, in percent."""
    share, low, high = (comparison[f"relative{end}"] for end in ("", "_low", "_high"))
    if math.isnan(share):
        return "-"
    if math.isnan(low):
        # With a single seed no figure has an interval.
        missing = "" if math.isnan(comparison["ci_low"]) else " (no interval)"
        return f"{share:+.1%}{missing}"
    mean, low, high = 100 * share, 100 * low, 100 * high
    half = max(high - mean, mean - low)
    is_even = abs((low + high) / 2 - mean) <= LEAST_SKEW * half
    text = with_interval(mean, half, None if is_even else (low, high))
    return f"{'+' if mean > 0 else ''}{text} %"


def effect_in_cell(comparison: Row) -> str:
    """The effect size of a row of `paired_differences`, such as "1.20 (-0.3 to 2.8)"."""
    size, low, high = (comparison[f"effect_{end}"] for end in ("size", "low", "high"))
    if math.isnan(size):
        return "-"
    return f"{size:.2f}" if math.isnan(low) else f"{size:.2f} ({low:.1f} to {high:.1f})"


def _tens(value: float) -> int:
    """The power of ten of its first digit."""
    return math.floor(math.log10(abs(value)))


def in_digits(value: Any) -> str:
    """A number with four digits, a dash if it is not known; text as it is."""
    if isinstance(value, float):
        return "-" if math.isnan(value) else f"{value:.4g}"
    return str(value)


def in_words(median: float, above: float) -> str:
    """What is known about a target that some runs missed: "median 2.5", "> 3", or a dash."""
    if not math.isnan(median):
        return f"median {median:.4g}"
    return "-" if math.isnan(above) else f"> {above:.4g}"


def of_run(run: Row, metric: str) -> Any:
    """A figure of one run; for a target that it missed, what the run had spent at its end."""
    value, target, asked = run.get(metric), target_of(metric), asked_by(metric)
    if target is None or asked is None or value is None or not math.isnan(value):
        return value
    if run.get("status") != "diverged" and math.isnan(run.get(asked[1], 0.0)):
        return "-"  # never evaluated
    return in_words(math.nan, run[target.spent])


def reached_columns(metrics: Sequence[str]) -> dict[str, str]:
    """For each target among `metrics`: a column name, and one of the metrics about it."""
    about = {metric: target_of(metric) for metric in metrics}
    return {
        f"reached {target.what}": metric
        for metric, target in reversed(about.items())
        if target is not None
    }


def reached(setting: Row, metric: str) -> str:
    """In how many runs of a row of `point_means` a target was met, such as "2/3"."""
    count, runs = setting[f"{metric}_count"], setting[f"{metric}_runs"]
    return f"{count}/{runs}" if runs else "not evaluated"


def race(comparison: Row) -> str:
    """Who is known to have met a target first in the pairs of a row of `paired_differences`."""
    first, behind, pairs = (comparison[column] for column in ("first", "behind", "pairs"))
    return f"first in {first}, behind in {behind} of {pairs} pairs"
