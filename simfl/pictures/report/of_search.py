"""The results of a search, in the report of its study."""

from __future__ import annotations

from typing import Any

import pandas as pd

from simfl.pictures.report import charts
from simfl.pictures.report.page import Page
from simfl.study.asking import MissingOptuna
from simfl.study.best import kept_of
from simfl.study.figure_text import in_cell
from simfl.study.levels import short_among, short_names
from simfl.study.loaded import LoadedStudy
from simfl.study.means import point_means
from simfl.study.regression import axis_label
from simfl.study.searched import (
    HOW_FAR_OFF,
    found_in_words,
    options_of,
    search_importances,
    search_path,
)
from simfl.study.studyfile import Search


def add_search(page: Page, study: LoadedStudy) -> None:
    """The path, the best setting or the front, which key mattered, and all trials."""
    search = study.search
    if search is None or not set(search.figures) <= set(study.table):
        return
    page.heading("Search")
    path = search_path(study.table, search)
    if path.empty:
        page.text("No trial has been run with every seed yet.")
        return
    runs = study.table[study.table["point"] < len(path)]
    means = point_means(runs, list(search.over), list(search.objectives))
    page.text(f"The {search.in_words}: {len(path)} of {search.trials} trials have ended.")
    for sentence in found_in_words(study.table, path, search):
        page.text(f"{sentence[0].upper()}{sentence[1:]}.")
    for trial, options in options_of(study, path, search):
        page.text(f"Trial {trial}, for simfl run: {options}")
    page.charts(*_path(study, path, search), *_front(study, path, means, search))
    _importances(page, study, search)
    columns = ["trial", "batch", "runs until then", *short_names(list(search.over))]
    page.table(
        [*columns, "seeds within bounds", *search.objectives, "better than all before it"],
        [
            (
                *(one[name] for name in ("trial", "batch", "runs", *search.over)),
                kept_of(one),
                *(in_cell(mean, name) for name in search.objectives),
                "yes" if one["better"] else "no",
            )
            for one, mean in zip(path.to_dict("records"), means.to_dict("records"), strict=True)
        ],
    )


def _path(study: LoadedStudy, path: pd.DataFrame, search: Search) -> list[tuple[str, charts.Chart]]:
    """The best value so far of a single objective, by the number of runs."""
    if search.best is None or path["best"].isna().all():
        return []
    known = path.dropna(subset="best")
    figure = search.best.figure
    line = {"best so far": (_list(known["runs"]), _list(known["best"]))}
    axis = axis_label(study.table, figure)
    drawn = charts.lines(line, "simulated runs", axis, steps=True)
    return [(f"{figure}: best so far", drawn)]


def _front(
    study: LoadedStudy, path: pd.DataFrame, means: pd.DataFrame, search: Search
) -> list[tuple[str, charts.Chart]]:
    """With several objectives: the first against each of the others, for trials within the
    bounds.
    """
    if search.best is not None:
        return []
    there = path["feasible"].to_numpy()
    shown, on_front = means[there], _list(path["front"][there])
    first, *others = search.objectives
    return [
        (
            f"{first} and {other}",
            charts.front(
                {
                    "names": [f"trial {number}" for number in shown["point"]],
                    "x": _list(shown[other]),
                    "y": _list(shown[first]),
                    **{
                        f"{axis}_{end}": _list(shown[f"{name}_{end}"])
                        for axis, name in (("x", other), ("y", first))
                        for end in ("low", "high")
                    },
                },
                axis_label(study.table, other),
                axis_label(study.table, first),
                on_front,
            ),
        )
        for other in others
    ]


def _importances(page: Page, study: LoadedStudy, search: Search) -> None:
    try:
        found = search_importances(study.table, search)
    except MissingOptuna as error:
        page.text(f"Which key mattered is not computed: {error}", "note")
        return
    if found.empty:
        return
    page.text(
        "Which key mattered: the share of a figure's variance over the trials that a key explains"
        " by itself, in a forest fitted to them (fANOVA). The trials concentrate where the figure"
        f" is good, so it is not a share over all settings; {HOW_FAR_OFF}.",
        "note",
    )
    page.charts(
        *(
            (
                f"{figure}: which key mattered",
                charts.bars(
                    {
                        "importance": (
                            [short_among(one, list(search.over)) for one in rows["key"]],
                            _list(rows["importance"]),
                        )
                    },
                    "share of the variance explained (1)",
                    "",
                    sideways=True,
                ),
            )
            for figure, rows in found.groupby("figure", sort=False)
        )
    )


def _list(column: Any) -> list[Any]:
    return list(column.tolist())
