"""One figure of a run: how well, how long, how costly, and who took part."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from simfl.runfolder import LoadedRun

# Okabe and Ito's palette, safe for colour-blind readers.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")


def save_overview(run: LoadedRun, path: Path) -> Path:
    """Write a PNG of four panels: accuracy against time and energy, energy, participation."""
    with mpl.rc_context({"axes.spines.top": False, "axes.spines.right": False, "font.size": 10}):
        figure = Figure(figsize=(11, 7), layout="constrained")
        canvas = FigureCanvasAgg(figure)
        axes = figure.subplots(2, 2)
        _accuracy(axes[0, 0], run, "time_s", "simulated time (s)")
        _accuracy(axes[0, 1], run, "energy_j", "energy of all devices (J)")
        _energy(axes[1, 0], run)
        _participation(axes[1, 1], run)
        figure.suptitle(f"{run.manifest['name']}, seed {run.manifest['seed']}")
        canvas.print_png(str(path))
    return path


def _accuracy(axes: Axes, run: LoadedRun, column: str, label: str) -> None:
    scored = run.rounds.dropna(subset="accuracy")
    axes.plot(scored[column], scored["accuracy"], marker=".", color=COLOURS[0])
    axes.set(xlabel=label, ylabel="test accuracy")
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)


def _energy(axes: Axes, run: LoadedRun) -> None:
    clients = run.clients
    states = ["idle", "download", "compute", "upload"]
    totals = clients.groupby("device")[[f"{state}_j" for state in states]].mean()
    bottom = totals.iloc[:, 0] * 0.0
    for state, colour in zip(states, COLOURS[4:5] + COLOURS[:3], strict=True):
        axes.barh(totals.index, totals[f"{state}_j"], left=bottom, label=state, color=colour)
        bottom = bottom + totals[f"{state}_j"]
    axes.set(xlabel="energy per client (J)", title="where the joules of clients go")
    axes.legend(fontsize=8, loc="lower right")


def _participation(axes: Axes, run: LoadedRun) -> None:
    clients = run.clients
    for edge, members in clients.groupby("edge"):
        axes.bar(
            members["client"],
            members["participations"],
            color=COLOURS[int(edge) % len(COLOURS)],
            label=f"edge {edge}",
        )
    axes.set(xlabel="client", ylabel="turns finished", title="who took part")
    if clients["edge"].nunique() <= 10:
        axes.legend(fontsize=8, ncols=2, loc="lower right")
