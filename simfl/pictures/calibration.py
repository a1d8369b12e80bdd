"""One figure of a calibration: predicted against measured seconds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

from simfl.calibration.computing import ComputingFit
from simfl.calibration.held_out import Prediction
from simfl.common.files import replacing
from simfl.console.printable import printable
from simfl.pictures.colours import COLOURS
from simfl.pictures.style import STYLE


def save_predictions(fit: ComputingFit, path: Path) -> Path:
    """Write `draw_predictions`'s figure as a PNG."""
    with replacing(path, f".partial{path.suffix}") as file, mpl.rc_context(STYLE):
        draw_predictions(fit).savefig(file, format="png")
    return path


def draw_predictions(fit: ComputingFit) -> Figure:
    """Every row as predicted by a fit to all rows, and with its model left out; one colour per
    device.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 5.5), layout="constrained")
        left, right = figure.subplots(1, 2, sharex=True, sharey=True)
        _panel(left, fit, fit.fitted, "fitted to all rows")
        _panel(right, fit, fit.held_out, "each model left out in turn, with 90 % intervals")
        left.set_ylabel("predicted (s)")
    return figure


def _panel(axes: Axes, fit: ComputingFit, rows: Sequence[Prediction], title: str) -> None:
    axes.set_title(title)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("measured (s)")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(EngFormatter())
        axis.set_minor_formatter(NullFormatter())
    if not rows:
        return
    ends = [one.measured for one in rows]
    axes.plot([min(ends), max(ends)], [min(ends), max(ends)], color="0.6", linewidth=1)
    is_held_out = rows is fit.held_out
    for place, device in enumerate(fit.devices):
        own = [one for one in rows if one.thing == place]
        colour = COLOURS[place % len(COLOURS)]
        measured = [one.measured for one in own]
        if is_held_out:
            axes.vlines(measured, [one.low for one in own], [one.high for one in own], colour)
        predicted = [one.predicted for one in own]
        axes.scatter(measured, predicted, color=colour, s=24, label=printable(device))
        named: set[int] = set()
        for one in own:
            if one.subject not in named:
                named.add(one.subject)
                text = printable(fit.subjects[one.subject])[:24]
                axes.annotate(
                    text,
                    (one.measured, one.predicted),
                    (5, -4),
                    fontsize=7,
                    textcoords="offset points",
                )
    axes.legend(loc="upper left", frameon=False, fontsize=8)
