"""Figures of several runs: means over the seeds with their range."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from paper.experiments import Trial
from paper.study import Study
from simfl.pictures.colours import COLOURS

Curve = Callable[[Trial], pd.Series]
LINES = ("-", "--", ":")


def accuracy_curve(trial: Trial) -> pd.Series:
    """Test accuracy by version."""
    return trial.run.rounds.dropna(subset="accuracy").set_index("version")["accuracy"]


def plot_means(axis: Axes, trials: Sequence[Trial], curve: Curve = accuracy_curve) -> None:
    """A line per name: the mean of `curve` (a series by x) over the seeds, and their range.

    Seeds that lack a point of another are interpolated, and held from their last point on.
    """
    for index, name in enumerate(dict.fromkeys(one.name for one in trials)):
        table = pd.concat([curve(one) for one in trials if one.name == name], axis=1)
        table = table.sort_index().interpolate(method="index")
        x, y = table.index.to_numpy(dtype=float), table.to_numpy(dtype=float)
        colour = COLOURS[index % len(COLOURS)]
        line = LINES[index // len(COLOURS) % len(LINES)]
        axis.plot(x, np.nanmean(y, axis=1), line, color=colour, label=name)
        if y.shape[1] > 1:
            low, high = np.nanmin(y, axis=1), np.nanmax(y, axis=1)
            axis.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
    axis.grid(alpha=0.3)
    axis.legend(fontsize="small")


def draw_by_data(
    study: Study, trials: Sequence[Trial], name: str, curve: Curve = accuracy_curve, **axes: str
) -> None:
    """Save a figure with `plot_means` in a panel per data set; `axes` is set of each (xlabel)."""
    shown = list(dict.fromkeys(one.data for one in trials))
    if not shown:
        return
    figure, panels = new_figure(len(shown))
    for panel, data in zip(panels, shown, strict=True):
        plot_means(panel, [one for one in trials if one.data == data], curve)
        panel.set(title=data, **axes)
    save_figure(figure, study.folder, name)


def new_figure(panels: int, height: float = 3.8) -> tuple[Figure, list[Axes]]:
    """A figure of panels side by side."""
    figure = Figure(figsize=(4.8 * panels, height), layout="constrained")
    return figure, list(figure.subplots(1, panels, squeeze=False)[0])


def save_figure(figure: Figure, folder: Path, name: str) -> Path:
    """Write `<folder>/<name>.png` and say so."""
    path = folder / f"{name}.png"
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    print(f"Figure: {path}\n", flush=True)
    return path
