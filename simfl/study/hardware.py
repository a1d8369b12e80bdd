"""Hardware uncertainty of a study's answers: its settings on drawn sets of machines.

Draw k of the machines is the same for all settings (common random numbers) and uses one of the
seeds in turn. Its effect is found by comparison with the run of the same setting and seed on the
machines as profiled. The mean over the seeds is then changed by as much: by the ratio for seconds,
joules and bytes, by the difference for other figures. So variation between seeds does not count as
hardware.

The mean over the seeds has an error of its own, that of few seeds. It is added once: on each drawn
machine the figure follows Student's distribution around the changed mean. An interval of the
machines alone holds the mean over all seeds in 32 to 91 % of simulated studies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import optimize, special

from simfl.common.arrays import FloatArray
from simfl.study.best import can_be_compared, keeping
from simfl.study.comparisons import CONFIDENCE, all_the_same, of_levels, paired_differences
from simfl.study.few_test_examples import ROUNDING
from simfl.study.figure_text import Row
from simfl.study.figures import AMOUNT, Bounds, bounds_of, cut
from simfl.study.loaded import DRAW, LoadedStudy
from simfl.study.means import point_means
from simfl.study.regression import bounds_in
from simfl.study.rows import ENDED
from simfl.study.studyfile import Best
from simfl.study.targets import judged, target_of
from simfl.study.yes_or_no import of_share

OUTSIDE = 0.05
"""The share of all machines beyond each end of an interval over hardware."""
LEAST_DRAWS = 19
"""Of n draws, the r-th lowest and r-th highest enclose (n + 1 - 2 r) / (n + 1) of all machines."""
PROBABILITIES = {"keeps": "within bounds", "is_best": "is the best"}
"""Columns of `hardware_best` with their headings."""
HOLDS = ("holds", "holds_low", "holds_high")
"""Columns of `hardware_differences`: the probability of an order, from, to."""


def hardware_intervals(table: pd.DataFrame, drawn: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Where a figure's mean over all seeds lies on 90 % of the machines, one row per setting.

    `table` and `drawn` are those of a `LoadedStudy`. Columns: point, `draws` in which the figure is
    known, `low` and `high`; NaN if the setting has no mean, inf if a drawn machine misses a target.
    With one seed, whose error is unknown, or without an error both ends are figures of draws. If
    the machines change nothing, both are the mean, whose error is that of the seeds alone.
    """
    moved, by_ratio = _moved(table, drawn, metric)
    means = point_means(table, [], [metric]).set_index("point")
    rows = []
    for point in table["point"].drop_duplicates():
        values = moved.loc[moved["point"] == point, "value"].dropna().to_numpy(dtype=float)
        mean, half, seeds = means.loc[point, [metric, f"{metric}_ci", f"{metric}_count"]]
        error = _error(half, int(seeds) - 1)
        if by_ratio and error and not _are_one(values):
            ends = _ends(np.log(values), np.full(values.size, error / mean), int(seeds) - 1)
            low, high = (float(np.exp(end)) for end in ends)
        else:
            low, high = _ends(values, np.full(values.size, error), int(seeds) - 1)
        low, high = cut((low, high), bounds_in(table[table["point"] == point], metric), values)
        rows.append({"point": point, "draws": values.size, "low": low, "high": high})
    return pd.DataFrame(rows)


def hardware_differences(
    table: pd.DataFrame,
    drawn: pd.DataFrame,
    metric: str,
    factor: str,
    baseline: object,
    factors: Sequence[str] = (),
) -> pd.DataFrame:
    """`paired_differences` with more columns, about the difference of means over the machines.

    `hardware_low` and `hardware_high` enclose the difference over all seeds on 90 % of the
    machines; `draws` is the number of draws on which both settings were run. `holds` is the
    probability that the order of the two means is as their difference says, over machines and
    seeds: for each draw, Student's probability that the difference, with its error over seeds, is
    on that side of zero, averaged over the draws. From `holds_low` to `holds_high` lies, with 95 %
    confidence, the share of all machines on which the order over all seeds is this one (`_holds`).
    With one seed, whose error is unknown, all three are of machines alone. NaN if there is no
    difference.
    """
    found = paired_differences(table, metric, factor, baseline, factors)
    others = [name for name in factors if name != factor]
    moved, by_ratio = _moved(table, drawn, metric)
    wide = moved.pivot(index=[DRAW, *others], columns=factor, values="value")
    rows = []
    for one in found.to_dict("records"):
        level, columns = one[factor], {"hardware_low": math.nan, "hardware_high": math.nan}
        columns |= dict.fromkeys(HOLDS, math.nan) | {"draws": 0}
        if not math.isnan(one["difference"]) and {baseline, level} <= set(wide):
            pairs = of_levels(wide, [baseline, level]).dropna().groupby(level=DRAW).mean()
            base, own = pairs.to_numpy(dtype=float).T
            with np.errstate(invalid="ignore"):  # both of a pair may miss a target
                differences = own - base
            scale = np.abs(base / one["baseline_mean"]) if by_ratio else np.ones(base.size)
            freedom = int(one["seeds"]) - 1
            error = _error(_half_width(one), freedom) * np.where(np.isfinite(scale), scale, 0.0)
            known = ~np.isnan(differences)
            low, high = _ends(differences[known], error[known], freedom)
            columns = {"hardware_low": low, "hardware_high": high, "draws": base.size}
            columns |= dict(zip(HOLDS, _holds(differences, one, scale), strict=True))
        rows.append(columns)
    return found.assign(**pd.DataFrame(rows, index=found.index))


def hardware_best(drawn: pd.DataFrame, asked: Best) -> pd.DataFrame:
    """The probability that a setting is within bounds, and that it is the best of those.

    One row per setting: point, `draws`, and the shares of draws (each a set of machines with a
    seed) in which the setting meets the bounds (`keeps`) and is the best (`is_best`). Draws in
    which the run of some setting is missing are left out. A run that ended without a target and
    before the bound may or may not meet it; it counts as not meeting it. Settings that cannot be
    compared are never the best; several equally good ones share a draw.
    """
    ended = drawn[drawn["status"].isin(ENDED)]
    settings_of = ended.groupby(DRAW)["point"].transform("size")
    runs = ended[settings_of == drawn["point"].nunique()].reset_index(drop=True)
    kept, _ = keeping(runs, asked.bounds(), [asked.figure])
    settings = runs.groupby("point").first().reset_index()
    comparable = settings.loc[can_be_compared(settings, [asked.figure, *asked.subject_to]), "point"]
    sign = -1.0 if asked.maximize else 1.0
    values = runs[asked.figure].where(kept & runs["point"].isin(comparable)) * sign
    first = values.groupby(runs[DRAW]).transform("min")
    is_best = (values == first).astype(float)
    share = is_best / is_best.groupby(runs[DRAW]).transform("sum").clip(lower=1.0)
    draws = int(runs[DRAW].nunique())
    by_point = pd.DataFrame({"keeps": kept, "is_best": share}).groupby(runs["point"]).sum() / draws
    return by_point.reset_index().assign(draws=draws)


def hardware_sentences(study: LoadedStudy) -> list[str]:
    """Sentences about a study's drawn machines; none without draws."""
    if not study.draws:
        return []
    if study.drawn["digest"].isin(study.table["digest"]).all():
        return ["no figure of these machines is uncertain: every drawn machine is as profiles say"]
    sentences = []
    if study.draws < LEAST_DRAWS:
        held = (study.draws - 1) / (study.draws + 1)
        sentences.append(
            f"intervals over machines are from {study.draws} drawn ones, the least and the greatest"
            f" of which hold {100 * held:.0f} % of machines, not 90 %, for which {LEAST_DRAWS} are"
            " drawn"
        )
    runs_of = study.drawn.sort_values("point").groupby(DRAW)["digest"].agg(tuple)
    if (different := runs_of.nunique()) < study.draws:
        sentences.append(
            f"of {study.draws} drawn machines, with their seeds, {different} are different (a"
            " calibrated profile has 100 draws): intervals and probabilities that count all of"
            " them look surer than they are"
        )
    if lost := int((study.drawn["status"] == "diverged").sum()):
        sentences.append(f"{lost} runs on drawn machines diverged")
    ended = study.drawn.loc[study.drawn["status"].isin(ENDED), "point"]
    if without := study.table["point"].nunique() - ended.nunique():
        sentences.append(
            f"settings without a finished run on drawn machines: {without}; the probabilities of"
            " the others are without them"
        )
    return sentences


def _moved(table: pd.DataFrame, drawn: pd.DataFrame, metric: str) -> tuple[pd.DataFrame, bool]:
    """The drawn runs with `value`, each setting's mean over the seeds on their machines.

    Also returns whether means were scaled by ratios.
    """
    plain = judged(table, metric)
    target = target_of(metric)
    whole = plain.groupby("point")[metric].agg(lambda values: values.mean(skipna=target is None))
    own = plain.set_index(["point", "seed"])[metric].astype(float)
    runs = (
        drawn
        if target is not None
        else drawn.assign(**{metric: drawn[metric].where(drawn["status"] == "completed")})
    )
    ended = runs[runs["status"].isin(ENDED)]
    at = pd.MultiIndex.from_frame(ended[["point", "seed"]])
    mean = ended["point"].map(whole).to_numpy(dtype=float)
    before, after = own.reindex(at).to_numpy(), ended[metric].to_numpy(dtype=float)
    if target is not None:
        after = np.where(np.isnan(after), np.inf, after)
    known = np.concatenate([before, after])
    by_ratio = bounds_of(metric) == AMOUNT and bool((known[~np.isnan(known)] > 0).all())
    value = mean * (after / before) if by_ratio else mean + (after - before)
    # If the machines change nothing, rounding must not either.
    value = np.where(after == before, mean, value)
    value = np.clip(value, *bounds_in(drawn, metric))
    return ended.assign(value=value), by_ratio


def _error(half_width: float, freedom: int) -> float:
    """The standard error of a mean, from half of its Student interval; 0 if it is unknown."""
    if freedom < 1 or not half_width > 0:
        return 0.0
    return half_width / float(special.stdtrit(freedom, (1 + CONFIDENCE) / 2))


def _half_width(difference: Row) -> float:
    """Half of the interval of a row of `paired_differences`, before it was cut at a bound."""
    its = difference["difference"]
    return float(max(difference["ci_high"] - its, its - difference["ci_low"]))


def _ends(values: FloatArray, errors: FloatArray, freedom: int) -> Bounds:
    """The ends of the interval over the draws, each with Student's error over the seeds.

    A share r / (n + 1) of all machines lies, on average, below the r-th lowest of n draws (David,
    Nagaraja, Order Statistics, 2003, section 2.5). With errors the r-th lowest is the value below
    which r - 1/2 of them are expected: with small errors that is the r-th lowest itself. Infinite
    values are never averaged.
    """
    if not values.size:
        return math.nan, math.nan
    inner = max(math.floor(OUTSIDE * (values.size + 1) + ROUNDING), 1)
    if not errors.any() or _are_one(values):
        in_order = np.sort(values)
        return float(in_order[inner - 1]), float(in_order[-inner])
    expected = inner - 0.5
    return _lowest(values, errors, freedom, expected), -_lowest(-values, errors, freedom, expected)


def _are_one(values: FloatArray) -> bool:
    """Whether there are only equal values, or none."""
    return not values.size or (bool(np.isfinite(values).all()) and all_the_same(values))


def _lowest(values: FloatArray, errors: FloatArray, freedom: int, expected: float) -> float:
    """The number below which so many of the values are expected, with their Student errors."""
    finite = np.isfinite(values)
    below_all = int((values == -np.inf).sum())
    if below_all >= expected:
        return -math.inf
    reach = float(errors.max()) * float(special.stdtrit(freedom, 1 - 1e-9))
    low, high = values[finite].min(initial=0.0) - reach, values[finite].max(initial=0.0) + reach
    wide = np.maximum(errors[finite], 1e-12 * (high - low))

    def count(number: float) -> float:
        steps = (number - values[finite]) / wide
        return below_all + float(special.stdtr(freedom, steps).sum())

    if count(high) < expected:
        return math.inf
    return float(optimize.brentq(lambda number: count(number) - expected, low, high))


def _holds(differences: FloatArray, one: Row, scale: FloatArray) -> tuple[float, float, float]:
    """The probability that the difference of two means has the sign that was found, from, and to.

    `scale` is the factor by which a draw scales the error over seeds. A draw in which the sign is
    unknown counts half. The interval holds the error of few seeds, which is one for all draws, and
    that of few draws: from the share of draws with that sign if the difference is at the lower end
    of Student's 97.5 % interval, less Clopper and Pearson's, to the same at the upper end. By
    Bonferroni's inequality both hold in 95 of 100 studies.
    """
    sign = np.sign(one["difference"])
    if not sign or not differences.size:
        return math.nan, math.nan, math.nan
    towards = np.nan_to_num(sign * differences, nan=0.0, posinf=np.inf, neginf=-np.inf)
    freedom = one["seeds"] - 1.0
    half = _half_width(one)
    size = np.maximum(abs(one["baseline_mean"]), abs(one["mean"])) * scale
    sure = np.where(np.abs(towards) <= ROUNDING * size, 0.5, (towards > 0).astype(float))
    if freedom < 1 or not half > 0:
        return float(sure.mean()), *share_interval(float(sure.mean()), sure.size)
    error = _error(half, int(freedom)) * scale
    told = np.isfinite(towards) & np.isfinite(error) & (error > 0)
    steps = np.divide(towards, error, out=np.zeros_like(towards), where=told)
    chance = float(np.where(told, special.stdtr(freedom, steps), sure).mean())
    each = (1.0 + CONFIDENCE) / 2.0
    reach = float(special.stdtrit(freedom, (1.0 + each) / 2.0))
    at_ends = [float(np.where(told, steps > limit, sure).mean()) for limit in (reach, -reach)]
    low, _ = share_interval(at_ends[0], sure.size, each)
    _, high = share_interval(at_ends[1], sure.size, each)
    return chance, low, high


def in_interval(low: float, high: float) -> str:
    """An interval over machines for a table, such as "118 to 1510", "the same" or "118 or more"."""
    if math.isnan(low):
        return "-"
    if math.isinf(high):
        return "not known" if math.isinf(low) else f"{_in_short(low)} or more"
    if high - low <= ROUNDING * max(abs(low), abs(high)):
        return "the same"
    return f"{_in_short(low)} to {_in_short(high)}"


def _in_short(value: float) -> str:
    """Three significant digits; no exponent below a million."""
    text = f"{value:.3g}"
    return f"{float(text):.0f}" if "e+" in text and abs(value) < 1e6 else text


def share_interval(share: float, draws: int, confidence: float = CONFIDENCE) -> Bounds:
    """The interval of a share of this many draws; one-sided if it is all or none of them."""
    surest = (1.0 - confidence) ** (1.0 / draws)
    if share < 1.0 / draws:
        return 0.0, 1.0 - surest
    if share > 1.0 - 1.0 / draws:
        return surest, 1.0
    return of_share(share * draws, draws, confidence)


def in_probability(share: float, low: float, high: float) -> str:
    """A probability with its interval, such as "0.61 (0.46 to 0.74)".

    Near 1 or 0 only a bound, such as "> 0.94".
    """
    if math.isnan(share):
        return "-"
    if low <= 0.0 and f"{share:.2f}" == "0.00":
        return f"< {math.ceil(100.0 * high) / 100.0:.2f}"
    if high >= 1.0 and f"{share:.2f}" == "1.00":
        return f"> {math.floor(100.0 * low) / 100.0:.2f}"
    return f"{share:.2f} ({low:.2f} to {high:.2f})"


def in_share(share: float, draws: int) -> str:
    """`in_probability` of a share of this many draws."""
    return in_probability(share, *share_interval(share, draws))
