"""The common style of matplotlib's pictures."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 10,
    "text.parse_math": False,  # a "$" in a name is a "$"
}


def legend_above(axes: Axes, title: str) -> None:
    """A title, and below it the legend in one or two rows, both above the axes."""
    entries = len(axes.get_legend_handles_labels()[0])
    if not entries:
        axes.set_title(title)
        return
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
