"""Charts for plotly: traces and a layout, with units on every axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from simfl.pictures.colours import COLOURS, STATE_COLOURS
from simfl.pictures.report.page import FONT

Chart = dict[str, Any]
Values = Sequence[Any]

HEIGHT = 360
ROW_HEIGHT = 26
"""Pixels per row of a chart with one row per name."""

LEGEND_WIDTH, LEGEND_ROW_HEIGHT = 48, 19
"""Characters and pixels per row of the legend below a chart."""

KIND_COLOURS = {
    **STATE_COLOURS,
    "edge_aggregate": COLOURS[3],
    "cloud_aggregate": COLOURS[5],
    "network": COLOURS[7],
}
DASHES = ("solid", "dash", "dot", "dashdot")
MARKERS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "hexagon")
"""In addition to colours: distinguish lines and points in print."""
OPEN_MARKERS = {
    "median, as not all runs met it": "diamond-open",
    "lower bound, as too few runs met it": "triangle-right-open",
}
"""Markers for a target that some runs missed."""


def lines(
    series: Mapping[str, tuple[Values, Values]], x: str, y: str, *, steps: bool = False
) -> Chart:
    """Lines by name: (x values, y values); axes begin at 0, since values are seconds, joules or
    runs.
    """
    chart = _chart(
        [
            {
                "type": "scatter",
                "mode": "lines+markers" if len(values) <= 60 and not steps else "lines",
                "name": name,
                "x": list(places),
                "y": list(values),
                "line": {
                    "color": _colour(index),
                    "dash": DASHES[index % len(DASHES)],
                    "shape": "hv" if steps else "linear",
                },
                "marker": {"size": 6, "symbol": MARKERS[index % len(MARKERS)]},
            }
            for index, (name, (places, values)) in enumerate(series.items())
        ],
        x,
        y,
    )
    chart["layout"]["xaxis"]["rangemode"] = "tozero"
    return chart


def curves(named: Sequence[tuple[str, Mapping[str, Values]]], x: str, y: str) -> Chart:
    """Lines by name, each with a band; a curve has the columns x, y, low and high.

    A curve with a single place is a point with its interval. A click on a name in the legend hides
    its line and its band.
    """
    traces = []
    for index, (name, curve) in enumerate(named):
        colour, group = _colour(index), str(index)
        low, high, places = (list(curve[column]) for column in ("low", "high", "x"))
        shown = {"type": "scatter", "mode": "lines", "legendgroup": group, "name": name}
        if places and not np.isnan(np.array([*low, *high], dtype=float)).any():
            edges = {"width": 0}
            hidden = {**shown, "x": places, "showlegend": False, "hoverinfo": "skip"}
            traces += [
                {**hidden, "y": low, "line": edges},
                {**hidden, "y": high, "line": edges, "fill": "tonexty", "fillcolor": f"{colour}2e"},
            ]
        line = {"color": colour, "dash": DASHES[index % len(DASHES)], "width": 2}
        traces.append({**shown, "x": places, "y": list(curve["y"]), "line": line})
        if len(places) == 1:
            error = {**_bars(curve["y"], (low, high)), "color": colour}
            marker = {"color": colour, "symbol": MARKERS[index % len(MARKERS)], "size": 8}
            traces[-1] |= {"mode": "markers", "marker": marker, "error_y": error}
    chart = _chart(traces, x, y)
    chart["layout"]["showlegend"] = len(named) > 1
    longest = max(len(name) for name, _ in named)
    rows = len(named) * min(longest, LEGEND_WIDTH) // LEGEND_WIDTH if len(named) > 1 else 0
    chart["layout"]["height"] += LEGEND_ROW_HEIGHT * rows
    chart["layout"]["margin"]["b"] = 70 + LEGEND_ROW_HEIGHT * rows
    chart["layout"]["xaxis"]["rangemode"] = "tozero"
    return chart


def bars(
    series: Mapping[str, tuple[Values, Values]],
    x: str,
    y: str,
    *,
    colours: Mapping[str, str] | None = None,
    sideways: bool = False,
) -> Chart:
    """Stacked bars by name: (categories, lengths); with `sideways`, categories run down the
    page.
    """
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


def intervals(
    names: Values,
    means: Values,
    ends: tuple[Values, Values],
    x: str,
    *,
    zero: bool = False,
    missed: Mapping[str, Values] | None = None,
) -> Chart:
    """A point with its interval per name, down the page; `zero` marks zero difference.

    `ends` are the lower and the upper ends. `missed` has the values of open markers for settings
    without a mean, by the marker's name in the legend (one of `OPEN_MARKERS`); NaN for other
    settings.
    """
    places = [str(name) for name in names]
    drawn = {name: own for name, own in (missed or {}).items() if not np.isnan(own).all()}
    mean = {
        "type": "scatter",
        "mode": "markers",
        "name": "mean",
        "x": list(means),
        "y": places,
        "error_x": {**_bars(means, ends), "color": COLOURS[0]},
        "marker": {"color": COLOURS[0], "size": 9},
        "showlegend": bool(drawn),
    }
    opened = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": list(values),
            "y": places,
            "marker": {"color": COLOURS[0], "size": 11, "symbol": OPEN_MARKERS[name]},
        }
        for name, values in drawn.items()
    ]
    chart = _chart([mean, *opened], x, "", rows=len(places))
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


def _bars(means: Values, ends: tuple[Values, Values]) -> Chart:
    """Error bars from lower to upper ends; none if there is no interval."""
    middle, low, high = (np.array(one, dtype=float) for one in (means, *ends))
    return {
        "type": "data",
        "symmetric": False,
        "array": (high - middle).tolist(),
        "arrayminus": (middle - low).tolist(),
    }


def front(points: Mapping[str, Values], x: str, y: str, on_front: Sequence[bool]) -> Chart:
    """Settings by two figures; those on the Pareto front are joined.

    `points` are columns: names, x and y, and the ends of their intervals, x_low, x_high, y_low and
    y_high.
    """
    keys = ("names", "x", "y", "x_low", "x_high", "y_low", "y_high")
    rows = list(zip(*(points[key] for key in keys), strict=True))
    traces = []
    for wanted, name, symbol, colour in (
        (False, "other settings", "circle", COLOURS[4]),
        (True, "Pareto front", "diamond", COLOURS[5]),
    ):
        chosen = [row for row, is_on in zip(rows, on_front, strict=True) if is_on == wanted]
        chosen.sort(key=lambda row: row[1])
        columns = list(zip(*chosen, strict=True)) or [()] * len(keys)
        texts, x_values, y_values = columns[:3]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if wanted else "markers",
                "name": name,
                "text": list(texts),
                "x": list(x_values),
                "y": list(y_values),
                "error_x": {**_bars(x_values, (columns[3], columns[4])), "thickness": 1},
                "error_y": {**_bars(y_values, (columns[5], columns[6])), "thickness": 1},
                "marker": {"color": colour, "symbol": symbol, "size": 10},
                "line": {"color": colour, "shape": "linear", "dash": "dot"},
                "hovertemplate": "%{text}<br>%{x:.4g}, %{y:.4g}<extra></extra>",
            }
        )
    return _chart(traces, x, y)


def slices(kinds: Mapping[str, tuple[Values, Values, Values]], actors: Values, x: str) -> Chart:
    """What each actor did at which time, by kind: (actors, starts, durations)."""
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
    # Below the axis: a chart's tools appear at its upper edge.
    legend = {"orientation": "h", "x": 0, "y": 0, "yref": "container", "yanchor": "bottom"}
    return {
        "data": [_as_written(trace) for trace in traces],
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
            "xaxis": {**axis, "title": {"text": escape(x, quote=False), "standoff": 8}},
            "yaxis": {**axis, "title": {"text": escape(y, quote=False), "standoff": 8}},
        },
    }


def _as_written(trace: Chart) -> Chart:
    """A trace with escaped names: plotly reads "<b>" as bold, and drops "<other>"."""
    texts = {key: trace[key] for key in ("name", "text", "x", "y") if key in trace}
    return trace | {
        key: escape(its, quote=False)
        if isinstance(its, str)
        else [escape(one, quote=False) if isinstance(one, str) else one for one in its]
        for key, its in texts.items()
    }
