"""Paired comparisons of a study's runs: differences under common random numbers.

Runs with the same seed share every random draw that their difference does not affect. So what
matters is the spread of the differences, not that of the runs (Law, Simulation Modeling and
Analysis, chapters 10 and 11). For the same reason, settings with the same seed are not independent
replications: a seed counts once, with the mean over its settings. A single seed therefore gives no
interval: the spread over a grid says how different its settings are, not how certain their mean is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from simfl.study.comparable import CAVEATS, least_step
from simfl.study.effect_size import effect_interval, effect_size
from simfl.study.few_test_examples import ROUNDING, deviation_of_equals, differ
from simfl.study.figures import is_yes_or_no
from simfl.study.regression import bounds_in
from simfl.study.rows import ENDED
from simfl.study.targets import ended_badly, ends, judged, known_first, target_of
from simfl.study.yes_or_no import of_difference, p_value

CONFIDENCE = 0.95
FIGURES = (
    "baseline_mean",
    "mean",
    "difference",
    "ci_low",
    "ci_high",
    "relative",
    "relative_low",
    "relative_high",
    "effect_size",
    "effect_low",
    "effect_high",
    "p_value",
)
"""Columns of a comparison that may be NaN."""
RACE = ("reached", "baseline_reached", "first", "behind")
"""Additional columns for a target."""


def paired_differences(
    table: pd.DataFrame,
    metric: str,
    factor: str,
    baseline: object,
    factors: Sequence[str] = (),
    confidence: float = CONFIDENCE,
) -> pd.DataFrame:
    """Every level of `factor` against `baseline`, paired by seed and all other `factors`.

    `table` has one row per run with the columns `seed`, `metric` and the factors, and possibly
    `status`; pairs in which a figure is missing (NaN) are left out. The result has one row per
    level other than the baseline:

    - seeds, pairs, baseline_mean, mean, difference (level - baseline);
    - ci_low and ci_high: Student's interval with `confidence`. For a yes-or-no figure,
      `yes_or_no.of_difference`; for a figure that moves in steps (`comparable.least_step`) and
      whose difference is the same in all pairs although the runs differ, the interval of
      `few_test_examples.py`;
    - relative (difference / |baseline_mean|), relative_low and relative_high (Fieller's interval,
      at least -1 of a figure that cannot be negative; NaN if the baseline may be zero);
    - effect_size (`effect_size.py`: Hedges' g_av), effect_low and effect_high (Algina and
      Keselman's interval; NaN for yes-or-no figures and for differences that are all the same);
    - p_value (paired t test; McNemar's exact test for yes-or-no figures);
    - verdict: higher, lower, equal, undecided, "one seed", "diverged", "not all reached", "not
      modelled", "counted differently", "other currencies", "other tasks" or "no pairs".

    All are computed over `replications`; an interval and a p-value need two, an effect size three.

    "not modelled", "counted differently", "other currencies" and "other tasks": the runs of some
    pair differ in what this figure includes (`comparable.py`). "diverged": a run of some pair
    diverged, after which only targets are known; the remaining pairs would be a selection of seeds
    that went well. In all these cases everything from baseline_mean to p_value is NaN.

    For a target, a run that missed it still makes a pair. There are four more columns: in how many
    of the pairs the level `reached` it, in how many the baseline did (`baseline_reached`), and in
    how many the level is known to have been `first` or, after the baseline, `behind`. If a run of
    the pairs missed it, everything from baseline_mean to p_value is NaN.

    Raises ValueError if a column is missing or if factors and seed do not identify the runs.
    """
    every = table[table["status"].isin(ENDED)] if "status" in table else table
    table = judged(every, metric)
    others = [name for name in factors if name != factor]
    keys = ["seed", *others]
    missing = {metric, factor, *keys} - set(every.columns)
    if missing:
        raise ValueError(f"no column {', '.join(sorted(missing))} in the table of runs")
    if every.duplicated([*keys, factor]).any():
        raise ValueError(f"{', '.join([*keys, factor])} do not tell the runs apart")
    runs = table[[*keys, factor]].assign(value=table[metric], end=ends(table, metric), there=1.0)
    if "loss" in table:
        runs["loss"] = table["loss"]
    levels = every[factor].drop_duplicates()

    def by_level(of: pd.DataFrame, column: str) -> pd.DataFrame:
        return of.pivot(index=keys, columns=factor, values=column).reindex(columns=levels)

    wide = {column: by_level(runs, column) for column in ("value", "end", "there")}
    texts = [
        (caveat, by_level(table.assign(text=caveat.of(table)), "text"))
        for caveat in CAVEATS
        if caveat.touches(table, metric)
    ]
    if baseline not in set(levels):
        raise ValueError(f"no run has {factor} = {baseline}")
    went_wild = target_of(metric) is None and ended_badly(every) > 0
    wild = by_level(every.assign(wild=every["status"] == "diverged"), "wild") if went_wild else None
    rows = []
    for level in levels:
        if level == baseline:
            continue
        both = [baseline, level]
        there = "value" if target_of(metric) is None else "there"
        kept = of_levels(wide[there], both).dropna().index
        pairs, spent = (of_levels(wide[one], both).loc[kept] for one in ("value", "end"))
        seeds = pairs.index.unique("seed").size
        reached = bool(pairs.notna().to_numpy().all())
        diverged = wild is not None and bool(
            of_levels(wild, both).dropna().to_numpy(dtype=bool).any()
        )
        apart = [one for one, of in texts if one.part(of_levels(of, both).loc[kept])]
        compared = pairs if reached and not (apart or diverged) else pairs.iloc[:0]
        yes_or_no = is_yes_or_no(metric, compared.to_numpy(dtype=float))
        step = 1.0 if yes_or_no else least_step(table[table[factor].isin(both)], metric, table)
        if step and "loss" in runs and not yes_or_no and len(compared):
            losses = of_levels(by_level(runs, "loss"), both).loc[kept].to_numpy(dtype=float)
            step = step if differ(losses) else 0.0
        figures = _compared(
            replications(compared).to_numpy(dtype=float),
            confidence,
            yes_or_no,
            step * math.sqrt(seeds / max(len(pairs), 1)),
        )
        if bounds_in(table, metric)[0] == 0.0 and (compared >= 0.0).all(axis=None):
            # Nothing can be less than a figure of 0: at most 100 % lower.
            figures["relative_low"] = np.maximum(figures["relative_low"], -1.0)
        rows.append(
            {
                factor: level,
                "seeds": seeds,
                "pairs": len(pairs),
                **figures,
                "verdict": _verdict(figures, seeds, reached, [one.name for one in apart], diverged),
                **({} if target_of(metric) is None else _race(pairs, spent)),
            }
        )
    race = () if target_of(metric) is None else RACE
    return pd.DataFrame(rows, columns=[factor, "seeds", "pairs", *FIGURES, "verdict", *race])


def _race(pairs: pd.DataFrame, ends: pd.DataFrame) -> dict[str, int]:
    """For a target: how often each column (baseline first) met it, and how often it met it
    first.
    """
    (base, own), (base_end, own_end) = (one.to_numpy(dtype=float).T for one in (pairs, ends))
    return {
        "reached": int(np.isfinite(own).sum()),
        "baseline_reached": int(np.isfinite(base).sum()),
        "first": known_first(own, base, base_end),
        "behind": known_first(base, own, own_end),
    }


def _verdict(
    figures: dict[str, float], seeds: int, reached: bool, apart: Sequence[str], diverged: bool
) -> str:
    if apart:
        return apart[0]
    if diverged:
        return "diverged"
    if not seeds:
        return "no pairs"
    if not reached:
        return "not all reached"
    return "one seed" if seeds == 1 else verdict(figures["ci_low"], figures["ci_high"])


def replications(values: pd.DataFrame) -> pd.DataFrame:
    """Independent replications: the mean of each seed's values, which are indexed by seed and
    setting.
    """
    return values.groupby(level="seed").mean()


def of_levels(wide: pd.DataFrame, levels: Sequence[Any]) -> pd.DataFrame:
    """The columns of some levels; by place, since pandas takes two booleans for a mask."""
    known = list(wide.columns)
    return wide.iloc[:, [known.index(one) for one in levels]]


def _compared(
    pairs: np.ndarray, confidence: float, yes_or_no: bool, step: float
) -> dict[str, float]:
    """The figures of one comparison; `pairs` has the shape (count, 2), baseline first.

    With `yes_or_no`, the pairs of a seed are averaged, so values may lie between 0 and 1. With a
    `step`, the figure changes in steps, and pairs may agree by chance.
    """
    count = len(pairs)
    figures = dict.fromkeys(FIGURES, math.nan)
    if not count:
        return figures
    differences = pairs[:, 1] - pairs[:, 0]
    # Sums in a different order differ in their last bits.
    differences[np.abs(differences) <= ROUNDING * np.abs(pairs).max(axis=1)] = 0.0
    difference, base = float(differences.mean()), float(pairs[:, 0].mean())
    figures |= {"baseline_mean": base, "mean": base + difference, "difference": difference}
    figures["relative"] = difference / abs(base) if base else math.nan
    if count > 1:
        if yes_or_no and bool(np.isin(differences, (-1.0, 0.0, 1.0)).all()):
            low, high = of_difference(differences, confidence)
            figures["p_value"] = p_value(differences)
        else:
            step *= math.sqrt(2.0)  # for a difference of two runs
            half = half_width(differences, confidence, step)
            low, high = difference - half, difference + half
            figures["p_value"] = _p_value(differences, step)
            if not (step and all_the_same(differences)):
                figures |= _relative_interval(differences, pairs[:, 0], confidence)
        figures |= {"ci_low": low, "ci_high": high}
    figures["effect_size"] = effect_size(pairs, difference)
    if not yes_or_no and not all_the_same(differences):
        ends = effect_interval(pairs, differences, confidence)
        figures |= {"effect_low": ends[0], "effect_high": ends[1]}
    return figures


def _relative_interval(
    differences: np.ndarray, base: np.ndarray, confidence: float
) -> dict[str, float]:
    """Fieller's interval (J. R. Stat. Soc. B 16:175, 1954) of mean difference over baseline mean.

    Empty if the baseline's own interval includes zero: the ratio may then be anything.
    """
    count = differences.size
    square = float(special.stdtrit(count - 1, (1 + confidence) / 2)) ** 2 / count
    (of_own, of_both), (_, of_base) = square * np.cov(differences, base)
    own, mean = float(differences.mean()), float(base.mean())
    scale = mean**2 - of_base
    if not scale > ROUNDING * mean**2:
        return {}
    middle = own * mean - of_both
    half = math.sqrt(max(middle**2 - scale * (own**2 - of_own), 0.0))
    ends = sorted(math.copysign(1.0, mean) * (middle + one) / scale for one in (-half, half))
    return {"relative_low": ends[0], "relative_high": ends[1]}


def _p_value(differences: np.ndarray, step: float) -> float:
    error = _deviation(differences, step) / math.sqrt(differences.size)
    if not error:
        return 0.0 if differences.mean() else 1.0
    return float(2 * special.stdtr(differences.size - 1, -abs(differences.mean()) / error))


def half_width(values: np.ndarray, confidence: float = CONFIDENCE, step: float = 0.0) -> float:
    """Half of Student's confidence interval for the mean of `values`; NaN below two values.

    For equal values of a figure that changes in steps, its width follows `few_test_examples.py`.
    """
    if values.size < 2:
        return math.nan
    return float(special.stdtrit(values.size - 1, (1 + confidence) / 2)) * (
        _deviation(values, step) / math.sqrt(values.size)
    )


def _deviation(values: np.ndarray, step: float) -> float:
    same = all_the_same(values)
    return deviation_of_equals(step) if same else float(values.std(ddof=1))


def all_the_same(values: np.ndarray) -> bool:
    """Whether values differ at most by rounding."""
    return bool(values.std() <= ROUNDING * float(np.abs(values).max()))


def verdict(low: float, high: float) -> str:
    """On which side of zero an interval lies: higher, lower or undecided; equal if it is 0 to 0."""
    if low == high == 0:
        return "equal"
    if low > 0:
        return "higher"
    return "lower" if high < 0 else "undecided"
