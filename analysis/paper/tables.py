"""Values of runs, and tables of them beside the paper's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from paper.experiments import Trial
from simfl.runfolder import LoadedRun

COLUMNS = ["data", "name", "seed", "figure", "value"]


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
    """Print mean +- standard deviation over the seeds, names down, data sets across; return it.

    `published` has the paper's figures by (data, name), shown in a column of their own beside
    ours. `scale` multiplies ours (100 for percent).
    """
    ours = values[values["figure"] == figure]
    table = pd.DataFrame(index=pd.unique(ours["name"]))
    for data in pd.unique(ours["data"]):
        there = ours[ours["data"] == data].groupby("name")["value"]
        table[data] = [
            mean_and_deviation(scale * there.get_group(name).to_numpy(), digits)
            if name in there.groups
            else "-"
            for name in table.index
        ]
        if published:
            table[f"{data}, paper"] = [published.get((data, name), "-") for name in table.index]
    print_markdown(figure, table)
    return table


def print_figures(values: pd.DataFrame, digits: int = 4) -> None:
    """Print all figures of an exhibit, a table per data set: names down, figures across."""
    for data, own in values.groupby("data", sort=False):
        table = own.groupby(["name", "figure"], sort=False)["value"].agg(
            lambda cell: mean_and_deviation(cell.to_numpy(), digits)
        )
        print_markdown(str(data), table.unstack(fill_value="-"))  # a pivot sorts


def print_markdown(corner: str, table: pd.DataFrame) -> None:
    """Print a table of texts in Markdown."""
    rows = [[corner, *table.columns], *([str(name), *row] for name, row in table.iterrows())]
    widths = [max(len(str(row[column])) for row in rows) for column in range(len(rows[0]))]

    def line(cells: Sequence[object]) -> str:
        padded = (str(cell).ljust(width) for cell, width in zip(cells, widths, strict=True))
        return f"| {' | '.join(padded)} |"

    print(line(rows[0]))
    print(line(["-" * width for width in widths]))
    for row in rows[1:]:
        print(line(row))
    print(flush=True)


def cohens_d(one: Sequence[float], other: Sequence[float]) -> float:
    """|difference of the means| over the pooled standard deviation; NaN of fewer than 2 each."""
    a, b = np.asarray(one, dtype=float), np.asarray(other, dtype=float)
    if min(a.size, b.size) < 2:
        return float("nan")
    degrees = a.size + b.size - 2
    pooled = np.sqrt(((a.size - 1) * a.var(ddof=1) + (b.size - 1) * b.var(ddof=1)) / degrees)
    return float(abs(a.mean() - b.mean()) / pooled) if pooled else float("nan")


def mean_and_deviation(values: np.ndarray, digits: int) -> str:
    """As text, of one value per seed: the mean, and with several the standard deviation."""
    if values.size == 1:
        return f"{values[0]:.{digits}f}"
    return f"{values.mean():.{digits}f} ± {values.std(ddof=1):.{digits}f}"
