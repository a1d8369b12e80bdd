"""Learning curves for a paper: one line per setting of a study, with a band over the seeds."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from simfl.common.files import RunFolderError, replacing
from simfl.console.printable import printable
from simfl.pictures.colours import COLOURS
from simfl.pictures.style import STYLE
from simfl.runs.runfolder import LoadedRun, load_run
from simfl.study.comparisons import CONFIDENCE
from simfl.study.curves import NotDrawable, check_axes, curve_of, mean_curve
from simfl.study.figures import with_unit
from simfl.study.loaded import LoadedStudy
from simfl.study.means import setting_names

FORMATS = ("pdf", "png", "svg")

LINES = ("-", "--", ":", "-.")
"""In addition to colours: distinguish lines in print, and show a line below another one."""

PAPER_STYLE: dict[Any, Any] = {**STYLE, "pdf.fonttype": 42, "svg.fonttype": "none"}
"""Text in a PDF or SVG stays text, in fonts that publishers accept."""

MOST_SETTINGS = 16
"""More lines could not be distinguished."""


Named = tuple[str, pd.DataFrame]
"""A line's name, and its curve with the columns of `study.curves.mean_curve`."""


class Shown(Figure):
    """A figure that notebooks display below a cell even without pyplot."""

    def _repr_png_(self) -> bytes:
        picture = BytesIO()
        with mpl.rc_context(PAPER_STYLE):
            self.savefig(picture, format="png", dpi=120)
        return picture.getvalue()


def named_curves(source: LoadedRun | LoadedStudy, x: str, y: str) -> list[Named]:
    """The curve of a run, or of each of a study's first 16 settings that has one."""
    if isinstance(source, LoadedRun):
        check_axes(x, y)
        name = f"{source.manifest['name']}, seed {source.manifest['seed']}"
        found = [(printable(name), mean_curve([curve_of(source.rounds, x, y)], x, y))]
    else:
        curves = source.curves(y, x)
        found = [
            (name, curves[curves["point"] == point])
            for point, name in _first_settings(source).items()
        ]
    return [(name, curve) for name, curve in found if len(curve)]


def _first_settings(study: LoadedStudy) -> dict[Any, str]:
    """The names of a study's first 16 settings by point, with how many seeds they have."""
    settings = study.table.drop_duplicates("point").sort_values("point").head(MOST_SETTINGS)
    seeds, every = study.table.groupby("point")["seed"].nunique(), study.table["seed"].nunique()
    lacking = {point: f" ({own} of {every} seeds)" for point, own in seeds.items() if own < every}
    return {
        point: printable(name + lacking.get(point, ""))
        for name, point in zip(
            setting_names(settings, study.factors), settings["point"], strict=True
        )
    }


def plot(source: LoadedRun | LoadedStudy, *, x: str = "time_s", y: str = "accuracy") -> Figure:
    """Draw learning curves: a run's, or one line per setting of a study.

    `y` is accuracy or loss; `x` is time_s, client_energy_j, bytes, versions, client_active_j,
    server_energy_j or energy_j. Bands are 95 % intervals of the mean over the seeds. Raises
    ValueError for other figures, and `RunFolderError` if nothing was evaluated, or if there is no
    setting whose seeds all have a value at the same `x`.
    """
    curves = named_curves(source, x, y)
    if not curves:
        raise RunFolderError(f"{source.path}: no curve of {y}: {_why_none(source, x, y)}")
    with mpl.rc_context(PAPER_STYLE):
        figure = Shown(figsize=(5.0, 3.4 + 0.1 * len(curves)), layout="constrained")
        axes = figure.subplots()
        draw_curves(axes, curves, x, y)
        if y == "accuracy":
            axes.set_ylabel(f"test {with_unit(_one_run(source).accuracy_name)}")
        if isinstance(source, LoadedStudy) and source.table["point"].nunique() > 1:
            widest = max(len(name) for name, _ in curves)
            columns = 1 if widest > 28 else 2 if widest > 12 else min(len(curves), 4)
            figure.legend(loc="outside lower center", ncols=columns, fontsize=8, frameon=False)
    return figure


def _one_run(source: LoadedRun | LoadedStudy) -> LoadedRun:
    """The run itself, or the first run of a study."""
    if isinstance(source, LoadedRun):
        return source
    return load_run(source.path / source.table["folder"].iloc[0])


def _why_none(source: LoadedRun | LoadedStudy, x: str, y: str) -> str:
    """Why there is no curve: nothing was evaluated, or the seeds' curves do not overlap."""
    if isinstance(source, LoadedRun) or y not in source.rounds or source.rounds[y].isna().all():
        return "nothing was evaluated"
    return (
        f"at no {x} all seeds of a setting have a value; accepted: x versions, or a run with a"
        " smaller evaluate.every"
    )


def draw_curves(axes: Axes, curves: Sequence[Named], x: str, y: str) -> None:
    """Named lines with their bands; a single place is drawn as a point with its interval."""
    for index, (name, curve) in enumerate(curves):
        colour = COLOURS[index % len(COLOURS)]
        line = LINES[index % len(LINES)]
        places = curve[x].to_numpy()
        axes.plot(places, curve[y], line, color=colour, label=name, linewidth=1.4)
        low, high = (curve[f"{y}_{end}"].to_numpy() for end in ("low", "high"))
        axes.fill_between(places, low, high, color=colour, alpha=0.18, linewidth=0)
        if places.size == 1:
            axes.plot(places, curve[y], "o", color=colour, markersize=5)
            axes.vlines(places, low, high, color=colour, alpha=0.5)
    axes.set(xlabel=with_unit(x), ylabel=f"test {with_unit(y)}")
    if max(curve[x].max() for _, curve in curves) >= 10_000:
        axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
    axes.set_xlim(left=0)
    # With few seeds a band may be many times as high as the lines, which must remain
    # distinguishable.
    lowest, highest = (
        bound([bound(curve[y]) for _, curve in curves]) for bound in (np.min, np.max)
    )
    room, (bottom, top) = (highest - lowest) / 2, axes.get_ylim()
    if room > 0:
        axes.set_ylim(max(bottom, lowest - room), min(top, highest + room))
    axes.grid(alpha=0.3)


def caption(source: LoadedRun | LoadedStudy, x: str, y: str) -> str:
    """What lines and bands mean, for the text below a figure, and what is not drawn.

    Not drawn are settings whose seeds have no value at the same `x`, and those after the first 16.
    """
    if isinstance(source, LoadedRun):
        return "the line is one run, between its evaluations"
    seeds = source.table.groupby("point")["seed"].nunique()
    count = f"{seeds.min()}" if seeds.min() == seeds.max() else f"{seeds.min()} to {seeds.max()}"
    text = (
        f"lines are means over {count} seeds where all of them have a value, bands their"
        f" {CONFIDENCE:.0%} intervals (Student)"
        if seeds.max() > 1
        else "each line is one run, between its evaluations; of one seed there is no interval"
    )
    drawn = [name for name, _ in named_curves(source, x, y)]
    if len(drawn) == len(seeds):
        return text
    left = [name for name in _first_settings(source).values() if name not in drawn]
    text += f"; {len(drawn)} of {len(seeds)} settings are drawn"
    if not left:
        return text
    return f"{text}, without {'; '.join(left)}: at no {x} all of their seeds have a value"


def save_plot(figure: Figure, path: Path) -> Path:
    """Write a figure in the format of its name, .pdf, .png or .svg; raises `NotDrawable` for
    others.
    """
    kind = path.suffix.removeprefix(".").lower()
    if kind not in FORMATS:
        raise NotDrawable(f"{path}: found {path.suffix!r}, accepted: .{', .'.join(FORMATS)}")
    with replacing(path, f".partial{path.suffix}") as file, mpl.rc_context(PAPER_STYLE):
        figure.savefig(file, format=kind, dpi=200)
    return path
