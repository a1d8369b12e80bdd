"""The results of a search: its path, important keys, and settings as command options.

All of them are computed from the table of runs.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import numpy as np
import pandas as pd

from simfl.scenario.yaml_source.text import parse
from simfl.study import multiple_comparisons
from simfl.study.asking import Choice, distributions, the_optuna
from simfl.study.best import (
    BROKEN,
    KEPT,
    NOT_TOLD_APART,
    at_test,
    best_settings,
    keeping,
    nearness,
)
from simfl.study.design import one_after_another
from simfl.study.figure_text import Row, in_cell, in_digits
from simfl.study.goal_distance import shortfalls
from simfl.study.levels import as_text, level, value_of
from simfl.study.loaded import LoadedStudy
from simfl.study.means import point_means
from simfl.study.pareto import pareto_front
from simfl.study.rows import ENDED
from simfl.study.studyfile import Search

HOW_FAR_OFF = (
    "importances have no interval: where the shares are known, those from 16 to 24 trials were off"
    " by up to 0.2 (one standard deviation), once by 0.5"
)
"""Said below them: additive functions of four keys, with and without noise, 12 times each."""

LEAST_TRIALS = 8
"""Trials with a known figure that are needed to fit the forest for importances."""


def search_path(table: pd.DataFrame, search: Search) -> pd.DataFrame:
    """The trials of a search in the order in which they were asked, one row each.

    Columns: trial, batch, `runs` (simulations so far; equal ones count once), the searched keys,
    the mean of each objective over the seeds (NaN if not known), `seeds`, with how many of them all
    bounds are known to be met (`kept`) and some to be broken (`broken`), and `feasible` (the bounds
    are met with every seed). With one objective, `best` is the best mean of a feasible trial so
    far, else NaN. `better`: the trial is better than all before it; with several objectives, no
    earlier trial is as good. `front`: the trial is the best of all, or on the Pareto front of all.
    """
    runs = _whole(table)
    by_trial = runs.groupby("point")
    found = by_trial[list(search.over)].first()
    found = found.assign(**{name: by_trial[name].mean() for name in search.objectives})
    short = shortfalls(runs, search)
    for name in search.objectives:
        found[name] = found[name].where(short[name] == 0.0)
    kept, broken = keeping(runs, search.bounds(), list(search.objectives))
    counted = runs.assign(kept=kept, broken=broken).groupby("point")
    found = found.assign(seeds=by_trial.size(), feasible=short.max(axis=1) == 0.0)
    found[[KEPT, BROKEN]] = counted[[KEPT, BROKEN]].sum()
    first_seen = runs.assign(new=~runs["digest"].duplicated()).groupby("point")["new"].sum()
    found.insert(0, "runs", first_seen.cumsum().astype(int))
    found.insert(0, "batch", found.index // search.batch)
    found = found.rename_axis("trial").reset_index()
    values = found[list(search.objectives)].where(found["feasible"])
    signs = [1.0 if way == "max" else -1.0 for way in search.objectives.values()]
    gains = values.to_numpy(dtype=float) * signs
    found["better"] = [
        bool(is_feasible) and not (gains[:at] >= gains[at]).all(axis=1).any()
        for at, is_feasible in enumerate(found["feasible"])
    ]
    found["front"] = pareto_front(values, search.objectives)
    if search.best is not None:
        (name,) = search.objectives
        so_far = values[name].cummax() if search.maximize else values[name].cummin()
        found["best"] = so_far.ffill()
    return found


def _whole(table: pd.DataFrame) -> pd.DataFrame:
    """The runs of the leading trials, up to the first that lacks a seed."""
    runs = table[table["status"].isin(ENDED)]
    seeds = runs.groupby("point").size().reindex(range(int(runs["point"].max()) + 1), fill_value=0)
    short = np.flatnonzero((seeds < runs["seed"].nunique()).to_numpy())
    return runs[runs["point"] < short[0]] if short.size else runs


def standing(table: pd.DataFrame, search: Search) -> str:
    """How many trials have ended and the best of them, in one line."""
    path = search_path(table, search)
    text = f"{len(path)} of {search.trials} trials ended"
    front = path[path["front"]]
    if front.empty:
        return f"{text}, none keeps to the bounds with every seed"
    if search.best is None:
        return f"{text}, {len(front)} on the front"
    first = front.iloc[0]
    return f"{text}, best so far: {search.best.figure} {in_digits(first['best'])}"


def found_in_words(table: pd.DataFrame, path: pd.DataFrame, search: Search) -> list[str]:
    """What the search found, how long ago, and how much of it may be luck, in sentences."""
    front, none = path[path["front"]], "no trial is known to keep to what is asked with every seed"
    if search.best is None:
        if front.empty:
            return [f"{none}; {_nearest(table[table['point'] < len(path)], path, search)}"]
        trials = ", ".join(map(str, front["trial"]))
        sentence = f"no trial is better in all figures than trials {trials}"
        return [sentence, *multiple_comparisons.of_front(int(path["feasible"].sum()))]
    found = best_settings(table[table["point"] < len(path)], list(search.over), search.best)
    best = found.to_dict("records")[0]
    if front.empty:
        return [f"{none}; nearest is trial {best['point']}: {nearness(best, search.figures)}"]
    alike = int(found["against_best"].isin(NOT_TOLD_APART).sum())
    text = f"the best is trial {best['point']}: {in_cell(best, search.best.figure)}"
    since = len(path) - 1 - int(path.loc[path["better"], "trial"].iloc[-1])
    return [
        f"{search.best.figure}: {text}{at_test(best, search.best.figure)}; not told apart from it:"
        f" {alike} of the others",
        f"nothing better was found in the last {since} trials",
        *multiple_comparisons.of_best(int(found["ranked"].sum()), search.best.figure),
    ]


def _nearest(table: pd.DataFrame, path: pd.DataFrame, search: Search) -> str:
    """The trial nearest to the bounds on several figures, chosen as in `best_settings`."""
    runs = table[table["status"].isin(ENDED)]
    beyond = shortfalls(runs, search).sum(axis=1).rename("beyond")
    ranked = path.join(beyond, on="trial").sort_values(
        [KEPT, BROKEN, "beyond"], ascending=[False, True, True], kind="stable"
    )
    first = ranked.iloc[0]
    means = point_means(runs, list(search.over), list(dict.fromkeys(search.figures)))
    (setting,) = means[means["point"] == first["trial"]].to_dict("records")
    about = setting | first[["seeds", KEPT, BROKEN]].to_dict()
    return f"nearest is trial {first['trial']}: {nearness(about, search.figures)}"


def search_importances(table: pd.DataFrame, search: Search) -> pd.DataFrame:
    """Which key mattered: figure, key and `importance`; importances of a figure add up to 1.

    The share of a figure's variance over the trials that a key explains by itself, in a random
    forest fitted to them (fANOVA: Hutter, Hoos, Leyton-Brown, ICML 2014; Optuna's implementation
    with a fixed seed). Trials without the figure are left out; a figure that fewer than
    `LEAST_TRIALS` trials have, or that never varies, has no rows. Raises `MissingOptuna`.
    """
    optuna = the_optuna()
    path, space, rows = search_path(table, search), distributions(search), []
    for name in search.objectives:
        known = path[path[name].notna()]
        if len(known) < LEAST_TRIALS or known[name].nunique() < 2:
            continue
        study = optuna.create_study()
        for one in known.to_dict("records"):
            params = dict(zip(search.over, choice_of(one, search), strict=True))
            trial = optuna.trial.create_trial(
                params=params, distributions=space, value=float(one[name])
            )
            study.add_trial(trial)
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
        found = optuna.importance.get_param_importances(study, evaluator=evaluator)
        rows += [(name, key, share) for key, share in found.items()]
    return pd.DataFrame(rows, columns=["figure", "key", "importance"])


def choice_of(row: Row, search: Search) -> Choice:
    """A trial as it was asked, reconstructed from a row of the table."""
    return tuple(
        _place(row[key], one) if isinstance(one, list) else _number(row[key], one.integer)
        for key, one in search.over.items()
    )


def _place(cell: Any, values: list[Any]) -> int:
    """The index in a list of the value that a cell shows; in columns of mixed types it is text."""
    levels = [level(one) for one in values]
    return (
        levels.index(cell)
        if cell in levels
        else [as_text(one) for one in levels].index(as_text(cell))
    )


def _number(cell: Any, integer: bool) -> float | int:
    return int(cell) if integer else float(cell)


def options_of(study: LoadedStudy, path: pd.DataFrame, search: Search) -> list[tuple[int, str]]:
    """The best trial, or each one on the front, with its keys as options of `simfl run`.

    They are preceded by what the study sets in every point.
    """
    front = path[path["front"]]
    found = []
    for one in front.head(1 if search.best else len(front)).to_dict("records"):
        keys: dict[str, Any] = {}
        for (key, values), chosen in zip(search.over.items(), choice_of(one, search), strict=True):
            keys[key] = value_of(values[int(chosen)]) if isinstance(values, list) else chosen
        every = one_after_another(study.content.get("set") or {}, keys)
        options = [f"--set {shlex.quote(f'{key}={_as_yaml(one)}')}" for key, one in every.items()]
        found.append((int(one["trial"]), " ".join(options)))
    return found


def _as_yaml(value: Any) -> str:
    """A value as `--set` reads it: JSON, except for words that need no quotes."""
    if isinstance(value, str) and re.fullmatch(r"\w+", value) and parse(value, "")[0] == value:
        return value
    return json.dumps(value)
