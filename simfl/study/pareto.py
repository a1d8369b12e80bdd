"""Pareto fronts: points that no other point dominates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal

import numpy as np
import pandas as pd

from simfl.study.comparable import CAVEATS, Caveat
from simfl.study.figure_text import reached, reached_columns
from simfl.study.means import point_means, setting_names
from simfl.study.targets import target_of

Direction = Literal["max", "min"]


def pareto_front(table: pd.DataFrame, objectives: Mapping[str, Direction]) -> pd.Series[bool]:
    """Whether each row is on the front: no other row is as good in all columns and better in one.

    A row that lacks an objective (NaN) is not on the front and dominates no other; nor does one
    with a caveat (`comparable.py`) about an objective that others do not have.
    """
    signs = np.array([1.0 if way == "max" else -1.0 for way in objectives.values()])
    values = table[list(objectives)].to_numpy(dtype=float) * signs
    complete = ~np.isnan(values).any(axis=1)
    for caveat in caveats_about(table, objectives):
        complete &= (caveat.of(table) == "").to_numpy()
    front = complete.copy()
    for index in np.flatnonzero(complete):
        as_good = (values[complete] >= values[index]).all(axis=1)
        better = (values[complete] > values[index]).any(axis=1)
        front[index] = not (as_good & better).any()
    return pd.Series(front, index=table.index)


def caveats_about(table: pd.DataFrame, metrics: Iterable[str]) -> list[Caveat]:
    """The caveats in which the rows differ and that make one of the figures incomparable."""
    asked = list(metrics)
    return [
        caveat
        for caveat in CAVEATS
        if caveat.of(table).nunique() > 1 and any(caveat.touches(table, one) for one in asked)
    ]


def study_front(
    table: pd.DataFrame, factors: list[str], objectives: Mapping[str, Direction]
) -> pd.DataFrame:
    """The settings of a study on the Pareto front of their means over the seeds, best first.

    Sorted by the first objective. `on_front` says which settings are not ranked; `unranked` lists
    them.
    """
    means = point_means(table, factors, list(objectives))
    first, way = next(iter(objectives.items()))
    return means[on_front(means, objectives)].sort_values(first, ascending=way == "min")


def on_front(means: pd.DataFrame, objectives: Mapping[str, Direction]) -> pd.Series[bool]:
    """Whether each setting of `point_means` is on the front of those that can be ranked.

    Not ranked are settings that lack runs which others have (means over different seeds cannot be
    compared), settings with diverged runs unless all objectives are targets, settings of which some
    runs missed a target that is an objective (no mean), and those with a caveat.
    """
    whole = (means["missing"] == 0) & ~_diverged(means, objectives)
    ranked = means[list(objectives)].where(whole)
    return pareto_front(means.assign(**ranked), objectives)


def _diverged(means: pd.DataFrame, objectives: Iterable[str]) -> pd.Series[bool]:
    """The settings with a diverged run, for which only targets are known."""
    only_targets = all(target_of(one) is not None for one in objectives)
    return (means["diverged"] > 0) & (not only_targets)


def unranked(
    means: pd.DataFrame, factors: list[str], objectives: Mapping[str, Direction]
) -> list[str]:
    """A sentence for every setting of `point_means` that is not ranked, with the reason."""
    names = setting_names(means, factors)
    settings = list(zip(names, means.to_dict("records"), strict=True))
    missed = [
        f"not ranked: {name} ({about} in {reached(setting, metric)} runs)"
        for name, setting in settings
        for about, metric in reached_columns(list(objectives)).items()
        if math.isnan(setting[metric])
    ]
    ended, wild = means["runs"] + means["diverged"], _diverged(means, objectives)
    missed += [
        f"not ranked: {name} (diverged in {setting['diverged']}/{count} runs)"
        for (name, setting), count, is_wild in zip(settings, ended, wild, strict=True)
        if is_wild
    ]
    missed += [
        f"not ranked: {name} ({count} of {count + setting['missing']} runs are there)"
        for (name, setting), count in zip(settings, ended, strict=True)
        if setting["missing"]
    ]
    return missed + [
        f"not ranked: {name} ({caveat.name} under {setting[caveat.column]})"
        for caveat in caveats_about(means, objectives)
        for name, setting in settings
        if setting[caveat.column]
    ]
