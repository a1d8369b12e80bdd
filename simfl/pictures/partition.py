"""The picture of the data by client: a bar for each, stacked by label."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PolyCollection
from matplotlib.colors import BoundaryNorm, ListedColormap, to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from simfl.common.arrays import FloatArray, IntArray
from simfl.console.printable import printable
from simfl.pictures.colours import COLOURS
from simfl.pictures.curves import PAPER_STYLE, save_plot

MOST_NAMED_LABELS = 20
"""More labels have a colour scale beside the picture instead of a legend."""

SEPARATE_BARS = 150
"""The bars of more clients touch each other; otherwise only gaps would be visible."""

Colour = tuple[float, float, float, float]


def draw_partition(title: str, examples: IntArray, label_counts: IntArray) -> Figure:
    """Bars of examples (clients,), divided by `label_counts` (clients, labels) if there are
    labels.
    """
    clients, labels = label_counts.shape
    counts = label_counts if labels else examples[:, np.newaxis]
    colours = label_colours(counts.shape[1])
    with mpl.rc_context(PAPER_STYLE):
        figure = Figure(figsize=(min(max(5.0, 2 + clients / 12), 12.0), 3.6), layout="constrained")
        axes = figure.subplots()
        _draw_bars(axes, counts, colours)
        axes.set(xlabel="client", ylabel="examples", title=printable(title))
        axes.set_xlim(-0.7, clients - 0.3)
        axes.set_ylim(0, 1.03 * float(examples.max()))
        # By default there are at least two ticks: for a single client, some at fractions.
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        if 0 < labels <= MOST_NAMED_LABELS:
            # As in the bars: the first label is at the bottom.
            handles, names = axes.get_legend_handles_labels()
            figure.legend(
                handles[::-1],
                names[::-1],
                title="label",
                loc="outside right upper",
                ncols=1 + (labels > 10),
                fontsize=8,
                frameon=False,
            )
        elif labels:
            norm = BoundaryNorm(np.arange(labels + 1) - 0.5, labels)
            figure.colorbar(
                ScalarMappable(norm, ListedColormap(colours)),
                ax=axes,
                label="label",
                ticks=range(0, labels, -(-labels // 10)),
            )
    return figure


def save_partition(title: str, examples: IntArray, label_counts: IntArray, path: Path) -> Path:
    """Write `draw_partition`'s figure as a .pdf, .png or .svg."""
    return save_plot(draw_partition(title, examples, label_counts), path)


def label_colours(labels: int) -> Sequence[Colour]:
    """A colour per label: those of the palette, then darker and paler versions, or a colour
    scale.
    """
    if labels > MOST_NAMED_LABELS:
        return [mpl.colormaps["turbo"](share) for share in np.linspace(0, 1, labels)]
    pure = [to_rgba(colour)[:3] for colour in COLOURS[:7]]
    # Darker ones come first: pale blue resembles the palette's light blue too much.
    darker = [tuple(0.45 * part for part in one) for one in pure]
    paler = [tuple(0.4 * part + 0.6 for part in one) for one in pure]
    return [(red, green, blue, 1.0) for red, green, blue in [*pure, *darker, *paler][:labels]]


def _draw_bars(axes: Axes, counts: IntArray, colours: Sequence[Colour]) -> None:
    """One collection of rectangles per label, which works for any number of clients."""
    clients, labels = counts.shape
    half = 0.43 if clients <= SEPARATE_BARS else 0.5
    left, right = np.arange(clients) - half, np.arange(clients) + half
    bottom: FloatArray = np.zeros(clients)
    for label in range(labels):
        top = bottom + counts[:, label]
        corners = [(left, bottom), (left, top), (right, top), (right, bottom)]
        rectangles = np.stack([np.stack(corner, axis=1) for corner in corners], axis=1)
        shown = rectangles[counts[:, label] > 0]
        axes.add_collection(
            PolyCollection(list(shown), facecolors=[colours[label]], linewidths=0, label=str(label))
        )
        bottom = top
