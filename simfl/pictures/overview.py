"""The overview picture of a run: accuracy, time, cost and participation."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from simfl.common.files import replacing
from simfl.console.printable import printable
from simfl.pictures.colours import COLOURS, STATE_COLOURS
from simfl.pictures.panels import Axis, Bars, Line, Panel, name_axis, number_axis
from simfl.pictures.sheet import draw_sheet
from simfl.runs.runfolder import LoadedRun

MOST_NAMED_EDGES = 8
"""With more edge servers than that, colours cannot be distinguished: all have the same."""

MARGIN = 1.05
"""How far an axis extends beyond its data."""

MOST_APART = 50
"""Up to this many clients there is a gap between their bars."""


def save_overview(run: LoadedRun, path: Path) -> Path:
    """Write the overview as a PNG."""
    title = printable(f"{run.manifest['name']}, seed {run.manifest['seed']}")
    with replacing(path, f".partial{path.suffix}") as file:
        # The picture has few colours: better compression takes three times as long and saves
        # little.
        draw_sheet(overview_panels(run), title).save(file, format="PNG", compress_level=3)
    return path


def overview_panels(run: LoadedRun) -> list[list[Panel]]:
    """Accuracy against time and clients' energy, energy by state, and participation.

    If nothing was evaluated, versions replace accuracy.
    """
    return [
        [
            _accuracy(run, "time_s", "simulated time (s)"),
            _accuracy(run, "client_energy_j", "energy of clients (J)"),
        ],
        [_energy(run), _participation(run)],
    ]


def _accuracy(run: LoadedRun, column: str, label: str) -> Panel:
    """Accuracy against a column of the rounds table."""
    accuracy = run.column("rounds", "accuracy")
    evaluated = ~np.isnan(accuracy)
    if evaluated.any():
        figure = f"test {run.accuracy_name}"
        x, y = run.column("rounds", column)[evaluated], accuracy[evaluated]
    else:
        figure, x, y = "global version", *(run.column("rounds", one) for one in (column, "version"))
    low, high = (float(y.min()), float(y.max())) if y.size else (0.0, 1.0)
    beyond = (MARGIN - 1) * (high - low)
    # Even without a version the run took time and energy.
    ended = {"time_s": "horizon_s"}.get(column, column)
    end = float(x.max()) if x.size else float(run.manifest[ended])
    return Panel(
        _from_zero(label, end),
        number_axis(figure, low - beyond, high + beyond, whole=figure == "global version"),
        [Line(x, y, COLOURS[0])],
        grid=True,
    )


def _from_zero(label: str, end: float) -> Axis:
    """An axis of seconds or joules; these may be zero but never negative."""
    return number_axis(label, 0.0, MARGIN * end or 1.0)


def _energy(run: LoadedRun) -> Panel:
    device = run.column("clients", "device")
    kinds, places = np.unique(device.astype(str), return_inverse=True)
    clients = np.bincount(places)
    rows, left = np.arange(kinds.size, dtype=float), np.zeros(kinds.size)
    shapes, legend = [], []
    for state, colour in STATE_COLOURS.items():
        joules = np.bincount(places, run.column("clients", f"{state}_j")) / clients
        shapes.append(Bars(left, left + joules, rows - 0.4, rows + 0.4, colour))
        if joules.any():
            legend.append(({"tail": "radio's tail"}.get(state, state), colour))
        left = left + joules
    return Panel(
        _from_zero("mean energy per client (J)", float(left.max(initial=0.0))),
        name_axis([printable(str(kind)) for kind in kinds]),
        shapes,
        "where the joules of clients go",
        legend,
    )


def _participation(run: LoadedRun) -> Panel:
    client, edge, finished = (
        run.column("clients", name) for name in ("client", "edge", "participations")
    )
    half = 0.4 if client.size <= MOST_APART else 0.5
    edges = np.unique(edge[~np.isnan(edge)])
    told_apart = edges.size <= MOST_NAMED_EDGES
    shapes, legend = [], []
    for index, one in enumerate(edges):
        own, colour = edge == one, COLOURS[index if told_apart else 0]
        ends = (client[own] - half, client[own] + half)
        shapes.append(Bars(*ends, np.zeros(np.count_nonzero(own)), finished[own], colour))
        legend.append((f"edge {one:.0f}", colour))
    return Panel(
        number_axis("client", -0.7, float(client.max(initial=0.0)) + 0.7, whole=True),
        number_axis("rounds finished", 0.0, MARGIN * float(finished.max(initial=1.0)), whole=True),
        shapes,
        "who took part",
        legend if told_apart and edges.size > 1 else (),
    )
