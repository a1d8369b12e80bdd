"""Charts as plotly reads them: traces and a layout, units on every axis, safe colours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simfl.pictures.overview import COLOURS, STATE_COLOURS
from simfl.pictures.report.page import FONT

Chart = dict[str, Any]
Values = Sequence[Any]

HEIGHT = 360
ROW_HEIGHT = 26
"""Of a chart with one row per name, per row."""

KIND_COLOURS = {
    **STATE_COLOURS,
    "edge_aggregate": COLOURS[3],
    "cloud_aggregate": COLOURS[5],
    "network": COLOURS[7],
}
DASHES = ("solid", "dash", "dot", "dashdot")
MARKERS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "hexagon")
"""Beside colour: what tells lines and points apart in print."""


def lines(
    series: Mapping[str, tuple[Values, Values]], x: str, y: str, *, steps: bool = False
) -> Chart:
    """Lines by name: (x values, y values)."""
    return _chart(
        [
            {
                "type": "scatter",
                "mode": "lines+markers" if len(values) <= 60 and not steps else "lines",
                "name": name,
                "x": list(places),
                "y": list(values),
                "line": {
                    "color": _colour(index),
                    "dash": DASHES[index // len(COLOURS) % len(DASHES)],
                    "shape": "hv" if steps else "linear",
                },
                "marker": {"size": 6, "symbol": MARKERS[index % len(MARKERS)]},
            }
            for index, (name, (places, values)) in enumerate(series.items())
        ],
        x,
        y,
    )


def bars(
    series: Mapping[str, tuple[Values, Values]],
    x: str,
    y: str,
    *,
    colours: Mapping[str, str] | None = None,
    sideways: bool = False,
) -> Chart:
    """Stacked bars by name: (categories, lengths); sideways, categories run down the page."""
    traces = [
        {
            "type": "bar",
            "name": name,
            "orientation": "h" if sideways else "v",
            "x": list(lengths if sideways else categories),
            "y": list(categories if sideways else lengths),
            "marker": {"color": (colours or {}).get(name, _colour(index))},
        }
        for index, (name, (categories, lengths)) in enumerate(series.items())
    ]
    chart = _chart(traces, x, y, rows=_rows(series) if sideways else 0)
    chart["layout"] |= {"barmode": "stack", "bargap": 0.25}
    if sideways:
        chart["layout"]["yaxis"] |= {"type": "category", "autorange": "reversed"}
    elif all(isinstance(one, str) for categories, _ in series.values() for one in categories):
        chart["layout"]["xaxis"]["type"] = "category"
    return chart


def intervals(names: Values, means: Values, halves: Values, x: str, *, zero: bool = False) -> Chart:
    """A point with its interval per name, down the page; `zero` marks no difference."""
    chart = _chart(
        [
            {
                "type": "scatter",
                "mode": "markers",
                "x": list(means),
                "y": [str(name) for name in names],
                "error_x": {"type": "data", "array": list(halves), "color": COLOURS[0]},
                "marker": {"color": COLOURS[0], "size": 9},
                "showlegend": False,
            }
        ],
        x,
        "",
        rows=len(list(names)),
    )
    chart["layout"]["yaxis"] |= {"type": "category", "autorange": "reversed"}
    if zero:
        chart["layout"]["shapes"] = [
            {
                "type": "line",
                "x0": 0,
                "x1": 0,
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "line": {"color": "#4d5560", "dash": "dot"},
            }
        ]
    return chart


def front(points: Mapping[str, Values], x: str, y: str, on_front: Sequence[bool]) -> Chart:
    """Settings in two figures; those on the Pareto front are joined.

    `points`: names, x, y, x_ci and y_ci, as columns.
    """
    rows = list(zip(*(points[key] for key in ("names", "x", "y", "x_ci", "y_ci")), strict=True))
    traces = []
    for wanted, name, symbol, colour in (
        (False, "other settings", "circle", COLOURS[4]),
        (True, "Pareto front", "diamond", COLOURS[5]),
    ):
        chosen = [row for row, is_on in zip(rows, on_front, strict=True) if is_on == wanted]
        chosen.sort(key=lambda row: row[1])
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if wanted else "markers",
                "name": name,
                "text": [row[0] for row in chosen],
                "x": [row[1] for row in chosen],
                "y": [row[2] for row in chosen],
                "error_x": {"type": "data", "array": [row[3] for row in chosen], "thickness": 1},
                "error_y": {"type": "data", "array": [row[4] for row in chosen], "thickness": 1},
                "marker": {"color": colour, "symbol": symbol, "size": 10},
                "line": {"color": colour, "shape": "linear", "dash": "dot"},
                "hovertemplate": "%{text}<br>%{x:.4g}, %{y:.4g}<extra></extra>",
            }
        )
    return _chart(traces, x, y)


def slices(kinds: Mapping[str, tuple[Values, Values, Values]], actors: Values, x: str) -> Chart:
    """What each actor did when, by kind: (actors, starts, durations)."""
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": kind,
            "y": list(who),
            "base": list(starts),
            "x": list(durations),
            "marker": {"color": KIND_COLOURS[kind]},
            "hovertemplate": f"{kind} %{{y}}<br>from %{{base:.6g}} s<extra></extra>",
        }
        for kind, (who, starts, durations) in kinds.items()
    ]
    chart = _chart(traces, x, "", rows=len(list(actors)))
    chart["layout"] |= {"barmode": "overlay", "bargap": 0.15}
    chart["layout"]["yaxis"] |= {
        "type": "category",
        "categoryorder": "array",
        "categoryarray": list(reversed(list(actors))),
        "dtick": 1,
    }
    return chart


def _rows(series: Mapping[str, tuple[Values, Values]]) -> int:
    return len({category for categories, _ in series.values() for category in categories})


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def _chart(traces: list[Chart], x: str, y: str, rows: int = 0) -> Chart:
    axis = {"automargin": True, "gridcolor": "#e4e7eb", "zerolinecolor": "#b9bfc7"}
    # Below the axis: the upper edge is where the tools of a chart appear.
    legend = {"orientation": "h", "x": 0, "y": 0, "yref": "container", "yanchor": "bottom"}
    return {
        "data": traces,
        "layout": {
            "height": max(200, rows * ROW_HEIGHT + 140) if rows else HEIGHT,
            "margin": {"l": 64, "r": 16, "t": 32, "b": 84 if len(traces) > 1 else 52},
            "font": {"family": FONT, "size": 13, "color": "#1b1f24"},
            "colorway": list(COLOURS),
            "paper_bgcolor": "#fff",
            "plot_bgcolor": "#fff",
            "showlegend": len(traces) > 1,
            "legend": {**legend, "traceorder": "normal", "font": {"size": 12}},
            "hovermode": "closest",
            "xaxis": {**axis, "title": {"text": x, "standoff": 8}},
            "yaxis": {**axis, "title": {"text": y, "standoff": 8}},
        },
    }
