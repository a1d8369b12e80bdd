"""Main effects of factors, and first-order Sobol indices of numeric factors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import special

from simfl.common.arrays import FloatArray, IntArray
from simfl.study.comparable import caveat, least_step
from simfl.study.comparisons import all_the_same, half_width, replications
from simfl.study.few_test_examples import ROUNDING, differ
from simfl.study.figures import Bounds, is_yes_or_no
from simfl.study.polynomial_chaos import explained_by_each
from simfl.study.targets import ended_badly, judged, target_of

LEAST_CHANCE = 0.02
"""Share of a variance from which chance becomes visible in an index of two digits."""
MOST_BINS = 32
"""For factors all of whose levels differ; fewer than its square of settings have fewer bins."""


def main_effects(
    table: pd.DataFrame, metric: str, factors: Sequence[str], within: Sequence[str] = ()
) -> pd.DataFrame:
    """The main effect of each level of each factor, all else being equal.

    A block consists of the runs that share the seed, all other factors and `within` (sampled keys).
    The effect of a level is the mean over blocks of its difference from the block's mean; ci is
    half the width of Student's 95 % interval over `replications`. One row per factor and level:
    blocks, effect, ci. If the effect on a yes-or-no figure is the same with every seed, ci is NaN:
    a few seeds do not show that it always is. For an accuracy on few test examples, ci is then that
    of `few_test_examples.py`. Blocks in which a level or a figure is missing are left out; a factor
    without a complete block has no rows, nor has a figure that is not `explainable`.
    """
    table = judged(table, metric)
    rows = []
    for factor in factors if explainable(table, metric) else []:
        others = ["seed", *within, *(name for name in factors if name != factor)]
        blocks = table.pivot(index=others, columns=factor, values=metric).dropna()
        if blocks.shape[1] < 2 or blocks.empty:
            continue
        effects = blocks.sub(blocks.mean(axis=1), axis=0)
        # Sums in a different order differ in their last bits.
        size = blocks.abs().max(axis=1)
        effects = replications(effects.where(effects.abs().gt(ROUNDING * size, axis=0), 0.0))
        step = least_step(table, metric) * math.sqrt(len(effects) / len(blocks))
        if step and "loss" in table:
            losses = table.pivot(index=others, columns=factor, values="loss").loc[blocks.index]
            step = step if differ(losses.to_numpy(dtype=float)) else 0.0
        for level in table[factor].drop_duplicates():
            values = effects[level].to_numpy(dtype=float)
            figures = {"blocks": len(blocks), "effect": float(values.mean())}
            by_luck = all_the_same(values) and is_yes_or_no(metric, blocks.to_numpy(dtype=float))
            figures["ci"] = math.nan if by_luck else half_width(values, step=step)
            rows.append({"factor": factor, "level": level, **figures})
    return pd.DataFrame(rows, columns=["factor", "level", "blocks", "effect", "ci"])


def reached_by_all(table: pd.DataFrame, metric: str) -> bool:
    """Whether a figure is not a target, or is a target that every run met."""
    return target_of(metric) is None or bool(table[metric].notna().all())


def explainable(table: pd.DataFrame, metric: str) -> bool:
    """Whether effects on a figure are meaningful: all runs have it, and it is comparable."""
    return reached_by_all(table, metric) and caveat(table, metric) is None


def not_explained(table: pd.DataFrame, metrics: Sequence[str]) -> list[str]:
    """Why some of `metrics` have no effects or indices, and which runs the others leave out."""
    found = [
        f"main effects and Sobol indices of {metric} are not computed: {_reason(table, metric)}"
        for metric in metrics
        if not explainable(table, metric)
    ]
    chosen = [one for one in metrics if explainable(table, one) and target_of(one) is None]
    if chosen and ended_badly(table):
        count = f"{ended_badly(table)} of {len(table)} runs"
        found.append(
            f"main effects and Sobol indices of {', '.join(chosen)} leave out {count}, which"
            " diverged: the others are no fair sample"
        )
    return found


def _reason(table: pd.DataFrame, metric: str) -> str:
    found = caveat(table, metric)
    if found is not None and reached_by_all(table, metric):
        return f"{found.name}, as {found.why}"
    met = f"{table[metric].count()} of {len(table)} runs met the target"
    return f"{met}, and these are no fair sample"


def first_order_indices(
    table: pd.DataFrame, metric: str, factors: Sequence[str], sampled: Sequence[str] = ()
) -> pd.DataFrame:
    """First-order Sobol indices: the share of the variance that a factor explains alone.

    S_i = Var(E[Y | X_i]) / Var(Y) over the settings of the study (Sobol 1993; Saltelli et al.,
    Global Sensitivity Analysis, 2008, Eq. 4.3), where Y is a setting's expected value over seeds.
    It is estimated from the given runs: `sampled` factors by polynomials (`polynomial_chaos.py`);
    for others, settings are grouped by the factor's levels, or in bins of equal size if no two
    settings share a level (Plischke, Borgonovo, Smith, EJOR 226, 2013). The estimate is corrected
    for what is explained by chance, so a factor without influence has an index of about 0, which
    may be negative. For a factor that is crossed with all others, chance is the variance between
    seeds of a setting; for other ones in groups it includes the other factors (epsilon squared;
    Kelley, PNAS 21, 1935). Var(Y) excludes the variance due to seeds, too: a factor that explains
    everything has an index of about 1, however few seeds there are.

    One row per numeric factor: index, low and high (90 % jackknife interval, cut to [0, 1]),
    settings. The jackknife leaves out tenths of the settings if there are `sampled`
    factors, otherwise one seed at a time. If everything may be chance, the interval is all of [0,
    1], and the index may be NaN. With a single seed, chance is unknown: it is taken as zero, and
    there is no interval. A target that some runs missed has no rows, nor has any other figure that
    is not `explainable`, nor the only factor that varies, unless it was sampled: it explains
    everything.
    """
    table = judged(table, metric)
    missed = not explainable(table, metric)
    table = table.dropna(subset=metric)
    columns = ["factor", "index", "low", "high", "settings"]
    if missed or table.empty:
        return pd.DataFrame(columns=columns)
    means = setting_means(table, metric, factors)
    values = means[metric].to_numpy(dtype=float)
    by_seed = table.pivot(index="point", columns="seed", values=metric)
    seeds, noise = by_seed.shape[1], _noise(by_seed)
    parts: list[FloatArray] = []
    noise_of_parts = noise
    if sampled and seeds > 1:
        parts = list(_without_a_tenth(values))
    elif seeds > 1:
        parts = [by_seed.drop(columns=seed).mean(axis=1).to_numpy() for seed in by_seed]
        noise_of_parts = noise * seeds / (seeds - 1)
    rows = []
    varying = [name for name in factors if means[name].nunique() > 1]
    smooth = [name for name in varying if name in sampled]
    by_polynomials = _by_polynomials(means, metric, smooth, varying, noise)
    without = [
        _by_polynomials(means.assign(**{metric: one}), metric, smooth, varying, noise_of_parts)
        for one in parts
    ]
    for factor in varying:
        alone = len(varying) == 1 and factor not in sampled
        if alone or not pd.api.types.is_numeric_dtype(means[factor]):
            continue
        if factor in smooth:
            index, left = by_polynomials[factor], [one[factor] for one in without]
            can_tell = not all_the_same(values)
        else:
            groups = _groups(means[factor].to_numpy(dtype=float))
            others = [name for name in factors if name != factor]
            crossed = _is_crossed(means, factor, others)
            index = _explained(values, groups, noise, crossed)
            left = [_explained_there(part, groups, noise_of_parts, crossed) for part in parts]
            can_tell = len(np.unique(groups)) < values.size and not all_the_same(values)
        low, high = _jackknife_interval(index, left) if can_tell else (math.nan, math.nan)
        rows.append((factor, index, low, high, values.size))
    return pd.DataFrame(rows, columns=columns)


def _by_polynomials(
    means: pd.DataFrame, metric: str, keys: Sequence[str], varying: Sequence[str], noise: float
) -> dict[str, float]:
    """The indices of sampled keys, beside the other factors that vary, of settings with a value."""
    if not keys:
        return {}
    known = means[means[metric].notna()]
    found = explained_by_each(
        known[metric].to_numpy(dtype=float),
        [known[name].to_numpy(dtype=float) for name in keys],
        [pd.factorize(known[name])[0] for name in varying if name not in keys],
        noise,
    )
    return dict(zip(keys, found.tolist(), strict=True))


def as_share(index: float) -> float:
    """An index as it is displayed: an estimate may lie outside [0, 1], the true index cannot.

    The interval beside it is cut in the same way.
    """
    return float(np.clip(index, 0.0, 1.0))


def setting_means(table: pd.DataFrame, metric: str, factors: Sequence[str]) -> pd.DataFrame:
    """The mean of a figure over the seeds of every setting, with its factors, indexed by point."""
    settings = table.groupby("point", sort=True)
    return settings[list(factors)].first().assign(**{metric: settings[metric].mean()})


def left_to_chance(table: pd.DataFrame, metric: str) -> list[str]:
    """A sentence on how much of a figure's variance between settings is due to few seeds.

    Total indices include this share for every key, even one without influence. Empty if it is
    small.
    """
    by_seed = judged(table, metric).pivot(index="point", columns="seed", values=metric)
    if by_seed.shape[1] < 2:
        return [f"{metric}: of one seed nobody knows how much of total indices is chance"]
    variance = float(by_seed.mean(axis=1).var(ddof=1))
    share = min(_noise(by_seed) / variance, 1.0) if variance else 0.0
    if share < LEAST_CHANCE:
        return []
    return [
        f"{metric}: {100 * share:.0f} % of the variance between settings is what their"
        f" {by_seed.shape[1]} seeds leave to chance: the total index of a key that does nothing is"
        f" about {share:.2f}, and indices of first order are too low by as much of their size"
    ]


def _groups(levels: FloatArray) -> IntArray:
    """The group of each setting: its level, or a bin of equally many settings if all differ."""
    distinct, group = np.unique(levels, return_inverse=True)
    if distinct.size <= max(2, levels.size - 1):
        return group.astype(np.int64)
    bins = min(MOST_BINS, max(2, math.isqrt(levels.size)))
    rank = np.argsort(np.argsort(levels, kind="stable"), kind="stable")
    return rank * bins // levels.size


def _is_crossed(means: pd.DataFrame, factor: str, others: Sequence[str]) -> bool:
    """Whether every level of a factor occurs once with each combination of the others, which
    differ.
    """
    beside = means[list(others)].drop_duplicates()
    whole = len(means) == means[factor].nunique() * len(beside)
    return len(beside) > 1 and whole and not means[[factor, *others]].duplicated().any()


def _noise(by_seed: pd.DataFrame) -> float:
    """The variance of a setting's mean that is due to few seeds; 0 if unknown (a single seed).

    An effect of a seed that is the same for all settings does not count.
    """
    whole = by_seed.dropna().to_numpy(dtype=float)
    settings, seeds = whole.shape
    if settings < 2 or seeds < 2:
        return 0.0
    left = whole - whole.mean(axis=1, keepdims=True)
    left -= left.mean(axis=0)
    return float((left**2).sum()) / ((settings - 1) * (seeds - 1) * seeds)


def _explained(values: FloatArray, groups: IntArray, noise: float, crossed: bool) -> float:
    """The share of the variance that groups explain, corrected for chance.

    `noise` is the variance of each value that is due to few seeds. If the factor is `crossed` with
    all others, groups explain as much of the variance by chance; otherwise as much as remains
    within them. NaN if nothing varies, if every group has one setting, or if everything may be
    noise.
    """
    count, size = len(np.unique(groups)), values.size
    total = float(((values - values.mean()) ** 2).sum())
    rest = total - noise * (size - 1)
    if all_the_same(values) or size <= count or rest <= 0:
        return math.nan
    within = sum(
        float(((values[groups == one] - values[groups == one].mean()) ** 2).sum())
        for one in np.unique(groups)
    )
    chance = noise if crossed else within / (size - count)
    return (total - within - (count - 1) * chance) / rest


def _explained_there(values: FloatArray, groups: IntArray, noise: float, crossed: bool) -> float:
    """`_explained` for the settings that have a value."""
    there = ~np.isnan(values)
    return _explained(values[there], groups[there], noise, crossed)


def _without_a_tenth(values: FloatArray) -> FloatArray:
    """The values (settings,) with one tenth of them at a time replaced by NaN: (10, settings)."""
    parts = min(10, values.size)
    left = np.tile(values, (parts, 1))
    left[np.arange(values.size) % parts, np.arange(values.size)] = math.nan
    return left


def _jackknife_interval(index: float, left: Sequence[float]) -> Bounds:
    """The 90 % interval of an index by the delete-a-group jackknife, cut to [0, 1].

    Efron, Stein, Ann. Statist. 9 (1981), with Student's quantile. `left` are the indices with one
    group left out at a time; NaN if fewer than two. If one of them may be chance alone, nothing is
    known: all of [0, 1].
    """
    count = len(left)
    if count < 2:
        return math.nan, math.nan
    if not np.isfinite([index, *left]).all():
        return 0.0, 1.0
    error = math.sqrt((count - 1) * float(np.var(left)))
    half = float(special.stdtrit(count - 1, 0.95)) * error
    low, high = np.clip([index - half, index + half], 0.0, 1.0)
    return float(low), float(high)
