"""Output of `simfl compare`: differences in settings and results of runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from simfl.console.tables import FigureTable
from simfl.console.terminal import Terminal
from simfl.console.warned import print_kinds
from simfl.runs.figure_notes import figure_notes
from simfl.runs.runfolder import LoadedRun
from simfl.runs.so_far import so_far
from simfl.study.comparable import SIZED_ONLY, caveat_of_pair
from simfl.study.figure_text import of_run
from simfl.study.levels import level
from simfl.study.regression import TASK, regression_sentence
from simfl.study.rows import row
from simfl.study.studyfile import Questions
from simfl.study.targets import target_of
from simfl.study.warned import warning_kinds

NOT_COMPARED = ("name",)
"""Keys of a scenario that have no effect."""

NOT_SHOWN = (
    "warnings",
    "warning_counts",
    "warning_messages",
    "charged_client_idle",
    "charged_server_idle",
    "currency",
    TASK,
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

DEALT_OUT = ("data.partition.", "data.noise_variance.")
"""Sections of the data that do not change the test examples."""

NAMES = {"warning_kinds": "warnings", SIZED_ONLY.column: "codecs that only size"}
"""Headings of columns of a row."""


def print_comparison(runs: Sequence[LoadedRun], accuracies: Sequence[float]) -> None:
    """Two tables: keys of the scenarios that differ, and figures with differences to the first.

    A target that a run missed is shown as more than what the run had spent at its end. Figures that
    go by what is learned have no difference where codecs differ that only size messages. Between
    the tables stands what makes the runs unlike (`unlike`), and which have not ended: what these
    have spent so far is no difference to others, but for targets that they have met. Below them,
    what was found odd in which of the runs, and what to do about it.
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
    for sentence in (*unlike(different, whole), *filter(None, unfinished)):
        console.print(sentence)
    figures: list[list[str]] = []
    nowhere = [name for name in FOOTPRINT if all(math.isnan(one[name]) for one in rows)]
    left_out = (*NOT_SHOWN, *nowhere)
    for figure in dict.fromkeys(name for one in rows for name in one if name not in left_out):
        first, *others = (of_run(one, figure) for one in rows)
        name = NAMES.get(figure, figure)
        cells = []
        for one, value, cut in zip(rows[1:], others, unfinished[1:], strict=True):
            caveat = caveat_of_pair(rows[0], one, figure)
            if caveat is not None:
                cells.append(f"{shown(value)} ({caveat.name})")
            elif target_of(figure) is None and (unfinished[0] or cut):
                cells.append(shown(value))
            else:
                cells.append(beside(first, value))
        figures.append([name, shown(first), *cells])
    title = "figures, and differences to the first run"
    console.print(FigureTable(title, [""], names, figures), crop=False)
    figured = list(dict.fromkeys(name for one in rows for name in one))
    for sentence in (*regression_sentence(pd.DataFrame(rows), figured), *figure_notes(figured)):
        console.print(sentence)
    if len(rows) > 1:
        console.print(SINGLE)
    print_kinds(console, warning_kinds(pd.DataFrame(rows), names))


def unlike(different: Mapping[str, Sequence[str]], rounds: Sequence[pd.DataFrame]) -> list[str]:
    """Reasons why differences between the runs mean less than they seem to, one sentence each.

    `different` is the result of `differing_keys`; `rounds` are the runs' tables of versions.
    """
    found = []
    if not different and not all(one.equals(rounds[0]) for one in rounds[1:]):
        found.append(
            "but the runs differ: in a file that the scenario names (data, a profile, your own"
            " part), the version of simfl or the numeric platform"
        )
    if "seed" in different:
        found.append(
            f"seeds differ ({', '.join(different['seed'])}), and with them all random draws,"
            " including the test examples of some data sets: a difference may be chance;"
            " simfl study runs every setting with the same seeds"
        )
    data = [one for one in different if one.startswith("data.") and not one.startswith(DEALT_OUT)]
    if data:
        named = "data.name" if "data.name" in data else ", ".join(data)
        found.append(
            f"data differ ({named}): accuracy, loss and costs to a target may refer to other"
            " test examples or another task"
        )
    if "evaluate.every" in different:
        found.append(
            f"evaluate.every differs ({', '.join(different['evaluate.every'])}): a target counts as"
            " met when a version is evaluated, so with fewer evaluations it is met later and"
            " best_accuracy is lower"
        )
    return found


def differing_keys(scenarios: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Dotted key -> its value in each scenario, for the keys that differ."""
    flat = [dict(_leaves(one)) for one in scenarios]
    keys = dict.fromkeys(key for one in flat for key in one if key not in NOT_COMPARED)
    return {
        key: [str(level(one[key])) if key in one else "-" for one in flat]
        for key in keys
        if any(one.get(key, math.inf) != flat[0].get(key, math.inf) for one in flat)
    }


def _leaves(section: Any, path: tuple[str, ...] = ()) -> Any:
    items: Any = ()
    if isinstance(section, Mapping):
        items = section.items()
    elif isinstance(section, list) and any(isinstance(one, Mapping) for one in section):
        items = enumerate(section)
    if not items:
        yield ".".join(path), section
    for key, one in items:
        yield from _leaves(one, (*path, str(key)))


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
