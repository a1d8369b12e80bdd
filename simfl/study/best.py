"""The best setting of a study among those that meet its bounds with all seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from simfl.common.arrays import BoolArray
from simfl.study.bound import Bound
from simfl.study.bound_excess import excesses
from simfl.study.comparisons import CONFIDENCE, paired_differences
from simfl.study.figure_text import Row, in_cell
from simfl.study.figures import BESIDE_VALIDATION
from simfl.study.means import point_means, setting_names
from simfl.study.pareto import caveats_about
from simfl.study.rows import ENDED
from simfl.study.studyfile import Best
from simfl.study.targets import target_of

KEPT, BROKEN, BEYOND = "kept", "broken", "beyond"
NOT_TOLD_APART = ("undecided", "one seed", "equal")
"""Verdicts that do not say which of two settings is better."""


def best_settings(table: pd.DataFrame, factors: list[str], asked: Best) -> pd.DataFrame:
    """Every setting: the best first, then those that meet the bounds with fewer seeds.

    Among settings that meet them with equally many seeds, the one that exceeds them least comes
    first. In addition to the columns of `point_means` for the figure and those with bounds (for a
    figure of the validation set also of that of the test set): `seeds`
    is the number that ended, `kept` with how many of them all bounds are known to be met, and
    `broken` with how many some bound is known to be exceeded. For the rest it is not known, because
    a run ended without a target before it had spent as much as the bound. `ranked`: the setting
    meets the bounds with every seed that any setting has, and has a comparable mean. The first row
    is the best setting if it is ranked; `against_best` is the verdict of `paired_differences` for
    each other ranked one.
    """
    runs = table[table["status"].isin(ENDED)].reset_index(drop=True)
    bounds, metric = asked.bounds(), asked.figure
    kept, broken = keeping(runs, bounds, [metric])
    beyond = excesses(runs, bounds).sum(axis=1)
    counted = runs.assign(kept=kept, broken=broken, beyond=beyond).groupby("point")
    counts = counted[[KEPT, BROKEN]].sum().assign(seeds=counted.size())
    counts = counts.assign(beyond=counted[BEYOND].mean()).reset_index()
    figures = list(dict.fromkeys([metric, *asked.subject_to]))
    shown = [*figures, *_beside(runs, metric)]
    means = point_means(runs, factors, shown).merge(counts, on="point")
    comparable = can_be_compared(means, figures)
    every_seed = means[KEPT] == runs["seed"].nunique()
    means["ranked"] = every_seed & means[metric].notna() & comparable
    means = means.sort_values(
        ["ranked", KEPT, BROKEN, BEYOND, metric],
        ascending=[False, False, True, True, asked.maximize is None],
        ignore_index=True,
    )
    against_best = _against_best(runs, means, metric)
    return means.drop(columns=BEYOND).assign(against_best=against_best)


def keeping(
    runs: pd.DataFrame, bounds: Mapping[str, Bound], figures: Sequence[str]
) -> tuple[BoolArray, BoolArray]:
    """For each run, whether it is known to meet all bounds, and whether it is known to break some.

    A run that diverged breaks every bound except those on targets that it met before. It also
    counts as broken if one of `figures`, the objectives, is not a target.
    """
    diverged = (runs["status"] == "diverged").to_numpy()
    broken: BoolArray = diverged & any(target_of(one) is None for one in figures)
    kept = ~broken
    for metric, one in bounds.items():
        holds, fails = one.kept(runs, metric)
        kept, broken = kept & holds, broken | fails
    return kept, broken


def can_be_compared(settings: pd.DataFrame, metrics: Sequence[str]) -> BoolArray:
    """Whether each setting is free of caveats (`comparable.py`) about these figures, or all share
    them.
    """
    found = np.ones(len(settings), dtype=bool)
    for caveat in caveats_about(settings, metrics):
        found &= (caveat.of(settings) == "").to_numpy()
    return found


def _against_best(runs: pd.DataFrame, means: pd.DataFrame, metric: str) -> list[str]:
    ranked = means.loc[means["ranked"], "point"].tolist()
    if not ranked:
        return [""] * len(means)
    among = runs[runs["point"].isin(ranked)]
    # One-sided for all others together (Bonferroni): the truly best is not told apart in 95 of 100
    # studies, although the first was chosen for being the best of these runs.
    others = max(len(ranked) - 1, 1)
    confidence = max(CONFIDENCE, 1.0 - 2.0 * (1.0 - CONFIDENCE) / others)
    found = paired_differences(among, metric, "point", ranked[0], ["point"], confidence)
    verdicts = dict(zip(found["point"], found["verdict"], strict=True)) if len(found) else {}
    return ["the best", *(verdicts.get(point, "") for point in means["point"][1:])]


def in_one_sentence(found: pd.DataFrame, factors: list[str], asked: Best) -> str:
    """The answer in one sentence: the best setting, or why there is none."""
    names, first = setting_names(found, factors), found.to_dict("records")[0]
    cell = in_cell(first, asked.figure)
    if first["ranked"]:
        alike = [
            name
            for name, verdict in zip(names, found["against_best"], strict=True)
            if verdict in NOT_TOLD_APART
        ]
        between = "; " if any(", " in name for name in alike) else ", "
        others = f"; not told apart from it: {between.join(alike)}" if alike else ""
        beside = at_test(first, asked.figure)
        return f"the best is {names[0]}: {asked.figure} {cell}{beside}{others}"
    nearest = f"nearest is {names[0]}: {nearness(first, [asked.figure, *asked.subject_to])}"
    if first[KEPT] < first["seeds"]:
        return f"no setting is known to keep to the bounds with every seed; {nearest}"
    why = "a run of it is missing or missed the target, or the figures cannot be compared"
    return f"no setting that keeps to the bounds can be ranked by {asked.figure} ({why}); {nearest}"


def at_test(setting: Row, metric: str) -> str:
    """The figure on the test set of a setting chosen by the validation set; empty otherwise."""
    beside = BESIDE_VALIDATION.get(metric)
    if beside is None or beside not in setting:
        return ""
    return f" (on the test set, which the choice did not see: {beside} {in_cell(setting, beside)})"


def _beside(runs: pd.DataFrame, metric: str) -> list[str]:
    """The figure of the test set that is shown beside one of the validation set."""
    beside = BESIDE_VALIDATION.get(metric)
    return [beside] if beside is not None and beside in runs else []


def nearness(setting: Row, figures: Sequence[str]) -> str:
    """How near a setting comes to the goal: with how many seeds it meets the bounds, and its
    figures.
    """
    told = ", ".join(f"{name} {in_cell(setting, name)}" for name in dict.fromkeys(figures))
    return f"{kept_of(setting)} seeds, {told}"


def kept_of(setting: Row) -> str:
    """The number of seeds within the bounds, such as "2/3, 1 not known"."""
    unknown = setting["seeds"] - setting[KEPT] - setting[BROKEN]
    text = f"{setting[KEPT]}/{setting['seeds']}"
    return f"{text}, {unknown} not known" if unknown else text
