"""Our cells of the papers' main tables beside the papers' own: docs/papers/beside.png.

Drawn by `python analysis/pages.py` from the recorded rows at the papers' size.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from paper import Paper
from paper.page_picture import PagePicture
from paper.results import RESULTS, read_results
from simfl.pictures.colours import COLOURS
from simfl.study.means import mean_interval

ROOT = Path(__file__).parents[1]
PUBLISHED = ROOT / "analysis" / "published"


@dataclass(frozen=True)
class Panel:
    """A figure of a paper's exhibit; ours times `factor` is in the paper's unit."""

    paper: str
    exhibit: str
    figure: str
    title: str
    unit: str
    factor: float = 1.0


PANELS = (
    Panel("fedcure", "table1", "accuracy", "FedCure, Table 1", "test accuracy, %", 100.0),
    Panel("corefed", "table1", "mean", "CoreFed, Table 1", "mean utility of the agents"),
    Panel("fl_games", "table1", "test_accuracy", "FL Games, Table 1", "test accuracy, %", 100.0),
    Panel("fedsac", "table1", "fairness", "FedSAC, Table 1", "100 x correlation"),
    Panel("fedsac", "table2", "reward_max", "FedSAC, Table 2", "best client's accuracy, %", 100.0),
)


@dataclass(frozen=True)
class Cell:
    """One cell: the paper's mean and deviation (0 where it prints none), our value per seed."""

    name: str
    paper_mean: float
    paper_sd: float
    ours: tuple[float, ...]


def cells(panel: Panel) -> list[Cell]:
    """The paper's own cells that were run at its size, without other readings of ours."""
    paper: Paper = importlib.import_module(panel.paper).PAPER
    published = paper.exhibits[panel.exhibit].published
    assert published is not None, panel
    printed = published(panel.figure)
    own_names = set(pd.read_csv(PUBLISHED / f"{panel.paper}.csv", dtype=str)["name"])
    rows = read_results(RESULTS / f"{panel.paper}.csv")
    rows = rows[rows["exhibit"].eq(panel.exhibit) & rows["scale"].eq("paper")]
    rows = rows[rows["figure"].eq(panel.figure) & rows["name"].isin(own_names)]
    found = []
    for (data, name), own in rows.groupby(["data", "name"], sort=False):
        if (data, name) in printed:
            mean, _, deviation = printed[data, name].partition(" ± ")
            ours = tuple(panel.factor * own.sort_values("seed")["value"].astype(float))
            found.append(Cell(f"{name}, {data}", float(mean), float(deviation or 0), ours))
    return found


def shown() -> list[tuple[Panel, list[Cell]]]:
    """The cells of every panel, as they are recorded now."""
    return [(panel, cells(panel)) for panel in PANELS]


def draw(panels: Sequence[tuple[Panel, list[Cell]]]) -> Figure:
    """A panel per table, a line per cell: ours as a dot with its interval, the paper's as a bar."""
    there = [(panel, own) for panel, own in panels if own]
    longest = max(len(own) for _, own in there)
    figure = Figure(figsize=(4.2 * len(there), 1.6 + 0.24 * longest), layout="constrained")
    for axis, (panel, own) in zip(
        figure.subplots(1, len(there), squeeze=False)[0], there, strict=True
    ):
        for place, cell in enumerate(own):
            _line(axis, panel, cell, place)
        axis.set_yticks(range(len(own)), [cell.name for cell in own], fontsize="small")
        axis.set(ylim=(longest - 0.4, -0.6), xlabel=panel.unit)
        axis.set_title(panel.title, fontsize="medium")
        axis.grid(alpha=0.3)
    handles = [
        *axis.plot([], [], "o", color=COLOURS[0], label="ours, with the mean's 95 % interval"),
        *axis.plot([], [], "o", color=COLOURS[0], markerfacecolor="white", label="ours, one seed"),
        *axis.plot([], [], "s", color=COLOURS[5], label="the paper's, with its deviation"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3, frameon=False)
    return figure


def _line(axis: Axes, panel: Panel, cell: Cell, place: int) -> None:
    values = np.array(cell.ours)
    low, high = mean_interval(values / panel.factor, panel.figure)
    axis.errorbar(
        cell.paper_mean, place + 0.16, xerr=cell.paper_sd, fmt="s", markersize=4, color=COLOURS[5]
    )
    axis.plot([panel.factor * low, panel.factor * high], [place - 0.16] * 2, color=COLOURS[0])
    fill = COLOURS[0] if values.size > 1 else "white"
    axis.plot(
        values.mean(), place - 0.16, "o", markersize=5, color=COLOURS[0], markerfacecolor=fill
    )


PICTURE = PagePicture(ROOT / "docs" / "papers" / "beside.png", shown, draw)
