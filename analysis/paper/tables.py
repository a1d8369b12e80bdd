"""Values of runs, and tables of them beside the paper's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from paper.experiments import Trial
from simfl.runs.runfolder import LoadedRun
from simfl.study.figure_text import in_words
from simfl.study.targets import median_and_bound

COLUMNS = ["data", "name", "seed", "figure", "value"]
END = "_end"
"""Behind the name of a figure "until": the same at the end of a run, where that never got there."""
OF_SOME = re.compile(r"(-|-?[\d.]+( ± [\d.]+)?) \(\d+/\d+\)( \[\d+\])?")
"""A cell of a figure that is not defined for some seeds."""
SAID_OF_SOME = "(k/n): of n values k are defined, and the mean is over these."
OF_FEWER = re.compile(r" \[\d+\]$")
"""The end of a cell of fewer seeds than other cells have."""
SAID_OF_FEWER = "[n]: of n seeds, fewer than others; compare with the same seeds of these."


def final_accuracy(run: LoadedRun) -> float:
    """The last evaluated test accuracy; NaN for a run that evaluated nothing or diverged."""
    evaluated = run.rounds["accuracy"].dropna()
    if run.manifest["status"] == "diverged" or evaluated.empty:
        return float("nan")
    return float(evaluated.iloc[-1])


def mean_accuracy(run: LoadedRun, last: int) -> float:
    """Mean test accuracy of the last `last` evaluations; NaN as for `final_accuracy`."""
    evaluated = run.rounds["accuracy"].dropna()
    if run.manifest["status"] == "diverged" or evaluated.empty:
        return float("nan")
    return float(evaluated.tail(last).mean())


def gather(
    trials: Iterable[Trial], figures: Callable[[LoadedRun], Mapping[str, float]]
) -> pd.DataFrame:
    """What `figures` says of every run: one row per (data, name, seed, figure)."""
    rows = [
        (one.data, one.name, one.seed, figure, float(value))
        for one in trials
        for figure, value in figures(one.run).items()
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def print_table(
    values: pd.DataFrame,
    figure: str,
    published: Mapping[tuple[str, str], str] | None = None,
    *,
    scale: float = 1.0,
    digits: int = 3,
) -> pd.DataFrame:
    """Print `beside` of a figure, and return it."""
    table = beside(values, figure, published, scale=scale, digits=digits)
    print_markdown(figure, table)
    return table


def beside(
    values: pd.DataFrame,
    figure: str,
    published: Mapping[tuple[str, str], str] | None = None,
    *,
    scale: float = 1.0,
    digits: int = 3,
) -> pd.DataFrame:
    """Mean +- standard deviation over the seeds as texts, names down, data sets across.

    `published` has the paper's figures by (data, name), shown in a column of their own beside
    ours. `scale` multiplies ours (100 for percent).
    """
    values = with_undefined(values)
    ours = values[values["figure"] == figure]
    table = pd.DataFrame(index=pd.unique(ours["name"]))
    for data in pd.unique(ours["data"]):
        there = values[values["data"] == data].groupby("name")
        fewer = fewer_seeds(ours[ours["data"] == data])
        table[data] = [
            in_cell(there.get_group(name), figure, digits, scale) + fewer[name]
            if name in fewer
            else "-"
            for name in table.index
        ]
        if published:
            table[f"{data}, paper"] = [published.get((data, name), "-") for name in table.index]
    return table


def print_figures(values: pd.DataFrame, digits: int = 4) -> None:
    """Print all figures of an exhibit, a table per data set: names down, figures across."""
    for data, own in values.groupby("data", sort=False):
        print_markdown(str(data), across(own, digits))


def across(own: pd.DataFrame, digits: int = 4, asked: Sequence[str] | None = None) -> pd.DataFrame:
    """The figures of one data set as texts: names down, figures across; those asked, or all."""
    own = with_undefined(own)
    if asked is not None:
        own = own[own["figure"].isin(asked)]
    rows, fewer = own.groupby("name", sort=False), fewer_seeds(own)
    figures = list(pd.unique(own["figure"]))
    columns = [one for one in figures if not _is_end(one, figures)]
    table = pd.DataFrame(
        {
            figure: {
                name: in_cell(its, figure, digits) + fewer[name]
                for name, its in rows
                if figure in set(its["figure"])
            }
            for figure in columns
        },
        index=pd.unique(own["name"]),
    )
    return table.fillna("-")


def fewer_seeds(own: pd.DataFrame) -> dict[str, str]:
    """What stands behind the cells of each name of one data set: the number of its seeds, if others
    have more.
    """
    seeds = own.groupby("name", sort=False)["seed"].nunique()
    return {
        str(name): f" [{count}]" if count < seeds.max() else "" for name, count in seeds.items()
    }


def with_undefined(values: pd.DataFrame) -> pd.DataFrame:
    """With a NaN for each figure that a name has in some of its seeds and not in this one.

    Such rows are not recorded. What a figure is until, and was at the end, is left as it is.
    """
    absent = []
    for (data, name), own in values.groupby(["data", "name"], sort=False):
        known = {figure: set(its["seed"]) for figure, its in own.groupby("figure", sort=False)}
        for figure, seeds in known.items():
            if figure.endswith(END) or f"{figure}{END}" in known:
                continue
            lacking = sorted(set(own["seed"]) - seeds)
            absent += [(data, name, seed, figure, float("nan")) for seed in lacking]
    if not absent:
        return values
    return pd.concat([values, pd.DataFrame(absent, columns=COLUMNS)], ignore_index=True)


def _is_end(figure: str, figures: Sequence[str]) -> bool:
    """Whether a figure is what another had at the end, which stands in the cell of that one."""
    return figure.endswith(END) and figure.removesuffix(END) in figures


def print_markdown(corner: str, table: pd.DataFrame) -> None:
    """Print a table of texts in Markdown."""
    print(markdown(corner, table), flush=True)


def markdown(corner: str, table: pd.DataFrame) -> str:
    """A table of texts in Markdown, with its index as the first column.

    What a cell of some of the seeds says is explained below it.
    """
    rows = [[corner, *table.columns], *([str(name), *row] for name, row in table.iterrows())]
    widths = [max(len(str(row[column])) for row in rows) for column in range(len(rows[0]))]

    def line(cells: Sequence[object]) -> str:
        padded = (str(cell).ljust(width) for cell, width in zip(cells, widths, strict=True))
        return f"| {' | '.join(padded)} |"

    ruled = [line(rows[0]), line(["-" * width for width in widths]), *map(line, rows[1:])]
    if any(OF_SOME.fullmatch(str(cell)) for row in rows[1:] for cell in row[1:]):
        ruled += ["", SAID_OF_SOME]
    if any(OF_FEWER.search(str(cell)) for row in rows[1:] for cell in row[1:]):
        ruled += ["", SAID_OF_FEWER]
    return "".join(f"{one}\n" for one in ruled)


def cohens_d(one: Sequence[float], other: Sequence[float]) -> float:
    """|difference of the means| over the pooled standard deviation; NaN of fewer than 2 each."""
    a, b = np.asarray(one, dtype=float), np.asarray(other, dtype=float)
    if min(a.size, b.size) < 2:
        return float("nan")
    degrees = a.size + b.size - 2
    pooled = np.sqrt(((a.size - 1) * a.var(ddof=1) + (b.size - 1) * b.var(ddof=1)) / degrees)
    return float(abs(a.mean() - b.mean()) / pooled) if pooled else float("nan")


def in_cell(own: pd.DataFrame, figure: str, digits: int, scale: float = 1.0) -> str:
    """A figure of one name on one data set: mean and standard deviation over the seeds.

    Where some seeds never got to what a figure is until (NaN), and FIGURE_end has what they had
    spent by then: the median over all seeds or what it lies above, and how many got there.
    """
    values, ends = (
        scale * own[own["figure"] == one].set_index("seed")["value"]
        for one in (figure, f"{figure}{END}")
    )
    if ends.empty or values.notna().all():
        return mean_and_deviation(values.to_numpy(), digits)
    known = median_and_bound(values.to_numpy(), ends[values.index].to_numpy())
    return f"{in_words(*known)} ({values.count()}/{values.size})"


def mean_and_deviation(values: np.ndarray, digits: int) -> str:
    """As text, of one value per seed: the mean, and with several the standard deviation.

    Where it is not defined for some seeds, of the others, and how many these are.
    """
    known = values[~np.isnan(values)]
    if known.size < values.size:
        of_known = mean_and_deviation(known, digits) if known.size else "-"
        return f"{of_known} ({known.size}/{values.size})"
    if values.size == 1:
        return f"{values[0]:.{digits}f}"
    return f"{values.mean():.{digits}f} ± {values.std(ddof=1):.{digits}f}"
