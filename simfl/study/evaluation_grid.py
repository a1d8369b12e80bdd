"""Targets are noticed at evaluations only: what they cost is rounded up to the next one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from simfl.runs.runfolder import LoadedRun
from simfl.study.targets import asked_by, column_name

BETWEEN_S = "between_evaluations_s"
"""The column of a study's table with a run's mean seconds from one evaluation to the next."""

MOST_SHARE = 0.1
"""A larger share of the time to a target is told."""
MOST_UNLIKE = 1.5
"""Settings whose seconds between evaluations differ by a larger factor are told, if these are at
least half of `MOST_SHARE`."""
OFTEN = 4.0
"""From this factor on they are told in any case: the best of so many evaluations is another."""


def between_evaluations_s(run: LoadedRun) -> float:
    """A run's mean seconds from one evaluation to the next; NaN without any."""
    rounds = run.rounds
    evaluated = rounds.loc[rounds["loss"].notna(), "time_s"]
    return float(evaluated.iloc[-1]) / len(evaluated) if len(evaluated) else math.nan


def grid_sentences(runs: pd.DataFrame, metrics: Sequence[str]) -> list[str]:
    """Sentences if evaluations are far apart, compared with the time that a target took, or if
    some settings have many more than others.
    """
    targets = [one for one in metrics if asked_by(one) is not None]
    if not targets or not {BETWEEN_S, "time_s", "point"} <= set(runs):
        return []
    took_s = runs["time_s"].astype(float)
    for one in targets:
        _, figure, target = asked_by(one) or ("", "", 0.0)
        own = column_name("time", figure, target)
        if own in runs:
            took_s = took_s.where(runs[own].isna(), runs[own])
    apart_s = runs[BETWEEN_S].astype(float).groupby(runs["point"]).mean().dropna()
    share = (runs[BETWEEN_S] / took_s).groupby(runs["point"]).mean().max()
    unlike = len(apart_s) > 1 and apart_s.max() > MOST_UNLIKE * apart_s.min()
    least, most = f"{apart_s.min():.3g}", f"{apart_s.max():.3g}"
    each = least if least == most else f"{least} to {most}"
    by_chance = []
    if apart_s.max() > OFTEN * apart_s.min():
        by_chance.append(
            f"settings are evaluated every {each} s on average: where a curve goes up and down,"
            " more evaluations meet a target earlier by chance (evaluate.every)"
        )
    if not share > (MOST_SHARE / 2 if unlike else MOST_SHARE):
        return by_chance
    sentence = (
        f"targets are noticed at evaluations only, every {each} s on average: what they cost is"
        f" rounded up by at most that ({100 * share:.2g} % of the time or less)"
    )
    if unlike:
        sentence += "; settings with evaluations further apart look slower (evaluate.every)"
    return [sentence, *by_chance]
