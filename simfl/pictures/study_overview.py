"""One figure of a study: each setting's figures with their intervals."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from simfl.pictures.overview import COLOURS, STYLE
from simfl.pictures.whole_file import whole_file
from simfl.printable import printable
from simfl.study.loaded import LoadedStudy
from simfl.study.means import point_means, setting_names, unit_of

MOST_SETTINGS, MOST_METRICS = 40, 4


def save_study_overview(study: LoadedStudy, path: Path) -> Path:
    """Write `draw_study_overview`'s figure as a PNG."""
    with whole_file(path) as file, mpl.rc_context(STYLE):
        draw_study_overview(study).savefig(file, dpi=110)
    return path


def draw_study_overview(study: LoadedStudy) -> Figure:
    """A panel per metric: mean and 95 % interval of each setting, the first 40 of them."""
    metrics = [name for name in study.questions.metrics if name in study.completed][:MOST_METRICS]
    means = point_means(study.completed, study.factors, metrics).head(MOST_SETTINGS)
    names = [printable(name) for name in setting_names(means, study.factors)]
    with mpl.rc_context(STYLE):
        size = (3.4 + 2.05 * len(metrics), 1.2 + 0.32 * len(means))
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(1, len(metrics), sharey=True, squeeze=False)[0]
        for index, (axes, metric) in enumerate(zip(panels, metrics, strict=True)):
            axes.errorbar(
                means[metric],
                range(len(means)),
                xerr=means[f"{metric}_ci"].fillna(0.0),
                fmt="o",
                color=COLOURS[index],
                capsize=3,
            )
            axes.set(xlabel=unit_of(metric), ylim=(len(means) - 0.5, -0.5))
            axes.grid(alpha=0.3)
            axes.locator_params(axis="x", nbins=4)
        panels[0].set_yticks(range(len(means)), names)
        figure.suptitle(printable(f"{study.content['name']}: means over seeds and 95 % intervals"))
    return figure
