"""The results of a search, as tables in the terminal."""

from __future__ import annotations

import pandas as pd

from simfl.console.tables import FigureTable
from simfl.console.terminal import Terminal
from simfl.study.asking import MissingOptuna
from simfl.study.best import best_settings, kept_of
from simfl.study.figure_text import in_cell, in_digits
from simfl.study.levels import short_among, short_names
from simfl.study.loaded import LoadedStudy
from simfl.study.means import point_means
from simfl.study.searched import (
    HOW_FAR_OFF,
    found_in_words,
    options_of,
    search_importances,
    search_path,
)
from simfl.study.studyfile import Search

MOST_ROWS = 10
"""Trials in the table of the best ones; the path and the front are shown in full."""


def print_search(console: Terminal, loaded: LoadedStudy, search: Search) -> None:
    """The path, the best trials or the front, which key mattered, and the settings as options."""
    path = search_path(loaded.table, search)
    if path.empty:
        console.print("no trial has been run with every seed yet")
        return
    if path["better"].any():
        console.print(_path(path, search), crop=False)
    console.print(_best(loaded, path, search), crop=False)
    for sentence in found_in_words(loaded.table, path, search):
        console.print(sentence)
    for trial, options in options_of(loaded, path, search):
        console.print(f"trial {trial}: {options}", soft_wrap=True)
    try:
        found = search_importances(loaded.table, search)
    except MissingOptuna as error:
        console.print(f"which key mattered: {error}")
        return
    if len(found):
        rows = [
            [
                one["figure"],
                short_among(one["key"], list(search.over)),
                f"{one['importance']:.2f}",
            ]
            for one in found.to_dict("records")
        ]
        title = "which key mattered: shares of the variance over the trials (fANOVA, no intervals)"
        console.print(FigureTable(title, ["figure", "key"], ["importance"], rows), crop=False)
        console.print(HOW_FAR_OFF)


def _path(path: pd.DataFrame, search: Search) -> FigureTable:
    """The trials that were better than all before them."""
    objectives = list(search.objectives)
    rows = [
        [
            str(one["trial"]),
            *(in_digits(one[key]) for key in search.over),
            str(one["runs"]),
            *(in_digits(one[name]) for name in objectives),
        ]
        for one in path[path["better"]].to_dict("records")
    ]
    title = f"{search.in_words}: the path of {len(path)} trials, {path['runs'].iloc[-1]} runs"
    names = ["trial", *short_names(list(search.over))]
    return FigureTable(title, names, ["runs until then", *objectives], rows)


def _best(loaded: LoadedStudy, path: pd.DataFrame, search: Search) -> FigureTable:
    """The best trials with their intervals; with several objectives, the front."""
    names, keys = short_names(list(search.over)), list(search.over)
    runs = loaded.table[loaded.table["point"] < len(path)]
    if search.best is None:
        means = point_means(runs, keys, list(search.objectives))
        front = means[means["point"].isin(path.loc[path["front"], "trial"])]
        front = front.sort_values(next(iter(search.objectives)))
        rows = [
            [
                str(one["point"]),
                *(in_digits(one[key]) for key in keys),
                *(in_cell(one, name) for name in search.objectives),
            ]
            for one in front.to_dict("records")
        ]
        title = f"the front, {len(front)} of {len(path)} trials"
        return FigureTable(title, ["trial", *names], list(search.objectives), rows)
    found = best_settings(runs, keys, search.best)
    rows = [
        [
            str(one["point"]),
            *(in_digits(one[key]) for key in keys),
            kept_of(one),
            in_cell(one, search.best.figure),
            one["against_best"] or "-",
        ]
        for one in found.head(MOST_ROWS).to_dict("records")
    ]
    title = f"the best {len(rows)} of {len(path)} trials"
    columns = ["seeds within bounds", search.best.figure, "against the best"]
    return FigureTable(title, ["trial", *names], columns, rows)
