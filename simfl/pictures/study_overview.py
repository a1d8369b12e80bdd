"""One figure for a study: each setting's figures with their intervals."""

from __future__ import annotations

import textwrap
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simfl.common.files import replacing
from simfl.console.printable import printable
from simfl.pictures.colours import COLOURS
from simfl.pictures.style import STYLE
from simfl.study.loaded import LoadedStudy
from simfl.study.means import point_means, setting_names, with_completed
from simfl.study.regression import axis_label

MOST_SETTINGS, MOST_METRICS = 40, 4
LONGEST_LINE, INCHES_PER_LETTER = 60, 0.075
"""Of a setting's name, which goes on in a line below."""

MISSED = {"median": "D", "above": ">"}
"""Columns of `point_means` for a target that some runs missed, and their open markers."""


def save_study_overview(study: LoadedStudy, path: Path) -> Path:
    """Write `draw_study_overview`'s figure as a PNG."""
    with replacing(path, f".partial{path.suffix}") as file, mpl.rc_context(STYLE):
        draw_study_overview(study).savefig(file, format="png", dpi=110)
    return path


def draw_study_overview(study: LoadedStudy) -> Figure:
    """A panel for each of the first 4 metrics: mean and 95 % interval of the first 40 settings.

    The title says how many settings there are; a setting's name says how many of its seeds' runs
    completed, unless all did. Figures that no run has are left out. A target that some runs missed
    has an open marker at the median over all runs, or an arrow from its lower bound.
    """
    metrics = study.metrics[:MOST_METRICS]
    every = point_means(study.table, study.factors, metrics)
    means = every.head(MOST_SETTINGS)
    names = [
        textwrap.fill(printable(name), LONGEST_LINE)
        for name in with_completed(setting_names(means, study.factors), means)
    ]
    lines = [name.split("\n") for name in names]
    longest = max(len(line) for name in lines for line in name)
    with mpl.rc_context(STYLE):
        widest = max(3.4, 1.0 + INCHES_PER_LETTER * longest)
        size = (widest + 2.05 * len(metrics), 1.2 + 0.32 * sum(map(len, lines)))
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(1, len(metrics), sharey=True, squeeze=False)[0]
        for index, (axes, metric) in enumerate(zip(panels, metrics, strict=True)):
            draw_setting_means(axes, means, metric, COLOURS[index])
            axes.set(xlabel=axis_label(study.table, metric), ylim=(len(means) - 0.5, -0.5))
            axes.grid(alpha=0.3)
            axes.locator_params(axis="x", nbins=4)
        panels[0].set_yticks(range(len(means)), names)
        one_seed = study.table["seed"].nunique() == 1
        sure = "one seed, no intervals" if one_seed else "means over seeds and 95 % intervals"
        first = [
            f"first {shown} of {there} {what}"
            for shown, there, what in (
                (len(means), len(every), "settings"),
                (len(metrics), len(study.metrics), "figures"),
            )
            if shown < there
        ]
        figure.suptitle(printable("; ".join([f"{study.content['name']}: {sure}", *first])))
        if (
            means[[f"{metric}_{one}" for metric in metrics for one in MISSED]]
            .notna()
            .any(axis=None)
        ):
            figure.supxlabel("open: some runs missed the target; ◇ median, ▷ lower bound", size=9)
    return figure


def draw_setting_means(axes: Axes, means: pd.DataFrame, metric: str, colour: str) -> None:
    """The rows of `point_means` from top to bottom: means with intervals, or open markers."""
    rows = np.arange(len(means))
    low, high = means[metric] - means[f"{metric}_low"], means[f"{metric}_high"] - means[metric]
    axes.errorbar(
        means[metric],
        rows,
        xerr=np.array([low, high]),
        fmt="o",
        color=colour,
        capsize=3,
    )
    for column, marker in MISSED.items():
        axes.plot(means[f"{metric}_{column}"], rows, marker, color=colour, fillstyle="none")
