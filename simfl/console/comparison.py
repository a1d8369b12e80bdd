"""Output of `simfl compare`: differences in settings and results of runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from simfl.console.tables import FigureTable
from simfl.console.terminal import Terminal
from simfl.console.unlike import differing_keys, unlike
from simfl.console.warned import print_kinds
from simfl.runs.figure_notes import figure_notes
from simfl.runs.runfolder import LoadedRun
from simfl.runs.so_far import so_far
from simfl.study.comparable import (
    OWN_MODELS,
    SERVER_PLACE,
    SIZED_ONLY,
    Caveat,
    caveat_of_pair,
    lucky,
    unlike_servers,
    unlike_versions,
)
from simfl.study.figure_text import of_run
from simfl.study.regression import TASK, regression_sentence
from simfl.study.rows import row
from simfl.study.studyfile import Questions
from simfl.study.targets import target_of
from simfl.study.warned import warning_kinds

NOT_SHOWN = (
    "warnings",
    "warning_counts",
    "warning_messages",
    "charged_client_idle",
    "charged_server_idle",
    "currency",
    TASK,
    SERVER_PLACE,
)
"""Columns of a row that are left out: kinds of warnings say more than counts, and keys appear
above.
"""

FOOTPRINT = ("carbon_gco2", "electricity_cost")
"""Figures that only runs with a region have."""

SINGLE = (
    "these are single runs: a difference may be that of the seed; `simfl study` repeats settings"
    " with other seeds and prints intervals"
)
"""Said below every comparison."""

NAMES = {
    "warning_kinds": "warnings",
    SIZED_ONLY.column: "codecs that only size",
    OWN_MODELS.column: "what is served",
}
"""Headings of columns of a row."""


def print_comparison(runs: Sequence[LoadedRun], accuracies: Sequence[float]) -> None:
    """Two tables: keys of the scenarios that differ, and figures with differences to the first.

    A target that a run missed is shown as more than what the run had spent at its end. Figures that
    go by what is learned have no difference where codecs differ that only size messages. Between
    the tables stands what makes the runs unlike (`unlike`), and which have not ended: what these,
    or runs that diverged, have spent is no difference to others, but for targets that they have
    met. Below them, what was found odd in which of the runs, and what to do about it.
    """
    targets = Questions(targets={"accuracy": list(accuracies)}).target_columns()
    rows = [row(run, targets) for run in runs]  # read first: raises before anything is printed
    console = Terminal()
    names = [str(run.path) for run in runs]
    different = differing_keys([run.scenario for run in runs])
    settings = [[key, *texts] for key, texts in different.items()]
    told = FigureTable("what differs", [""], names, settings)
    console.print(told if different else "the scenarios are the same", crop=False)
    unfinished = [so_far(run) for run in runs]
    whole = [run.rounds for run, cut in zip(runs, unfinished, strict=True) if cut is None]
    for sentence in (*unlike(runs, different, whole), *filter(None, unfinished)):
        console.print(sentence)
    diverged = [run.manifest["status"] == "diverged" for run in runs]
    cut = [bool(one or other) for one, other in zip(unfinished, diverged, strict=True)]
    figures: list[list[str]] = []
    met: dict[str, Caveat] = {}
    nowhere = [name for name in FOOTPRINT if all(math.isnan(one[name]) for one in rows)]
    left_out = (*NOT_SHOWN, *nowhere)
    for figure in dict.fromkeys(name for one in rows for name in one if name not in left_out):
        first, *others = (of_run(one, figure) for one in rows)
        name = NAMES.get(figure, figure)
        cells = []
        for one, value, is_cut in zip(rows[1:], others, cut[1:], strict=True):
            caveat = caveat_of_pair(rows[0], one, figure)
            if caveat is not None:
                met[caveat.name] = caveat
                cells.append(f"{shown(value)} ({caveat.name})")
            elif target_of(figure) is None and (cut[0] or is_cut):
                cells.append(shown(value))
            else:
                cells.append(beside(first, value))
        figures.append([name, shown(first), *cells])
    title = "figures, and differences to the first run"
    console.print(FigureTable(title, [""], names, figures), crop=False)
    figured = list(dict.fromkeys(name for one in rows for name in one))
    table = pd.DataFrame(rows)
    notes = [
        *regression_sentence(table, figured),
        *figure_notes(figured),
        *lucky(table, figured),
        *unlike_versions(table, figured),
        *unlike_servers(table, figured),
    ]
    for sentence in (*(f"{one.name}: {one.why}" for one in met.values()), *notes):
        console.print(sentence)
    if len(rows) > 1:
        console.print(SINGLE)
    print_kinds(console, warning_kinds(pd.DataFrame(rows), names))


def beside(first: Any, value: Any) -> str:
    """A value with its difference from the first, absolute and in percent."""
    if not (_is_number(first) and _is_number(value)):
        return shown(value)
    difference = value - first
    percent = f", {difference / abs(first):+.1%}" if first else ""
    return f"{shown(value)} ({difference:+.4g}{percent})"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def shown(value: Any) -> str:
    """A value with four digits; a dash if there is none."""
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
