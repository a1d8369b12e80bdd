"""One figure of a run: how well, how long, how costly, and who took part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from simfl.common.files import replacing
from simfl.console.printable import printable
from simfl.pictures.colours import COLOURS, STATE_COLOURS
from simfl.runs.runfolder import LoadedRun

STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 10,
    "text.parse_math": False,  # a "$" in a name is a "$"
}

MOST_NAMED_EDGES = 8
"""More edge servers than colours are not told apart."""


def save_overview(run: LoadedRun, path: Path) -> Path:
    """Write `draw_overview`'s figure as a PNG."""
    with replacing(path, f".partial{path.suffix}") as file, mpl.rc_context(STYLE):
        draw_overview(run).savefig(file, format="png")
    return path


def draw_overview(run: LoadedRun) -> Figure:
    """Four panels: accuracy against time and clients' energy, where this goes, participation.

    Where nothing was evaluated, versions stand in for accuracy.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 7.5), layout="constrained")
        axes = figure.subplots(2, 2)
        _accuracy(axes[0, 0], run, "time_s", "simulated time (s)")
        _accuracy(axes[0, 1], run, "client_energy_j", "energy of clients (J)")
        _energy(axes[1, 0], run)
        _participation(axes[1, 1], run)
        figure.suptitle(printable(f"{run.manifest['name']}, seed {run.manifest['seed']}"))
    return figure


def legend_above(axes: Axes, title: str) -> None:
    """A title, and below it the legend in one or two rows, both above the axes."""
    entries = len(axes.get_legend_handles_labels()[0])
    columns = entries if entries <= 5 else (entries + 1) // 2
    rows = -(-entries // columns)
    axes.set_title(title, pad=12 + 14 * rows)
    axes.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=columns,
        fontsize=8,
        frameon=False,
        handlelength=1.2,
        columnspacing=1.2,
    )


def _accuracy(axes: Axes, run: LoadedRun, column: str, label: str) -> None:
    """Against a column of the rounds table."""
    figure = "accuracy" if run.rounds["accuracy"].notna().any() else "version"
    shown = run.rounds.dropna(subset=figure)
    axes.plot(shown[column], shown[figure], marker=".", color=COLOURS[0])
    axes.set(xlabel=label, ylabel="test accuracy" if figure == "accuracy" else "global version")
    if shown[column].max() >= 10_000:
        axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)


def _energy(axes: Axes, run: LoadedRun) -> None:
    columns = [f"{state}_j" for state in STATE_COLOURS]
    totals = run.clients.groupby("device")[columns].mean()
    bottom = totals.iloc[:, 0] * 0.0
    for state, colour in STATE_COLOURS.items():
        joules = totals[f"{state}_j"]
        label = {"tail": "radio's tail"}.get(state, state)
        axes.barh(
            totals.index, joules, left=bottom, label=label if joules.any() else None, color=colour
        )
        bottom = bottom + joules
    axes.set(xlabel="mean energy per client (J)")
    legend_above(axes, "where the joules of clients go")


def _participation(axes: Axes, run: LoadedRun) -> None:
    clients = run.clients
    for index, (edge, members) in enumerate(clients.groupby("edge")):
        axes.bar(
            members["client"],
            members["participations"],
            color=COLOURS[index % len(COLOURS)],
            label=f"edge {edge}",
            width=0.8 if len(clients) <= 50 else 1.0,
        )
    axes.set(xlabel="client", ylabel="rounds finished")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    if 1 < clients["edge"].nunique() <= MOST_NAMED_EDGES:
        legend_above(axes, "who took part")
    else:
        axes.set_title("who took part")
