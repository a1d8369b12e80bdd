"""FedSAC's figures: fairness against accuracy, rewards by client, clients' courses."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from fedsac_units import last_importance, lorenz_curve
from matplotlib.figure import Figure

from paper import Trial, new_figure, save_figure
from paper.page_picture import PagePicture
from paper.results import RESULTS, read_results
from simfl.common.arrays import FloatArray
from simfl.pictures.colours import COLOURS
from simfl.study.means import mean_interval

PAGES = Path(__file__).parents[1] / "docs" / "papers"
MARKERS = "osD^v<>P*X"


def draw_plane(values: pd.DataFrame) -> Figure:
    """Figure 3: a panel per split, a colour per method; means over the seeds with 95 % intervals.

    values: rows (data, name, seed, figure, value), with `fairness` and `reward_max`.
    """
    figures = {"fairness": 1.0, "reward_max": 100.0}
    values = values[values["figure"].isin(figures)]
    names, columns = (list(dict.fromkeys(values[one])) for one in ("name", "data"))
    figure, axes = new_figure(len(columns))
    for axis, data in zip(axes, columns, strict=True):
        for place, name in enumerate(names):
            own = values[values["data"].eq(data) & values["name"].eq(name)]
            spans = {
                one: _span(rows["value"].to_numpy(dtype=float), one, figures[str(one)])
                for one, rows in own.groupby("figure")
            }
            if len(spans) < len(figures):
                continue  # equal rewards have no correlation
            (x, x_error), (y, y_error) = (spans[one] for one in figures)
            colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
            axis.errorbar(x, y, y_error, x_error, marker, color=colour, label=name, elinewidth=0.7)
        axis.set(title=data, xlabel="fairness", ylabel="accuracy of the best client (%)")
        axis.grid(alpha=0.3)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    return figure


def _span(values: FloatArray, figure: str, factor: float) -> tuple[float, list[list[float]]]:
    """The mean times `factor`, and how far its interval extends below and above it."""
    mean = float(values.mean())
    low, high = mean_interval(values, figure)
    return factor * mean, [[factor * (mean - low)], [factor * (high - mean)]]


def draw_clients(values: pd.DataFrame) -> Figure:
    """Figures 4 and 6: a panel per split; clients by contribution, a line per method.

    values: rows (data, name, figure, value) of one seed: contributions and rewards by client.
    """
    columns = list(dict.fromkeys(values["data"]))
    figure, axes = new_figure(len(columns))
    for axis, data in zip(axes, columns, strict=True):
        here = values[values["data"].eq(data)]
        of = here.pivot(index="name", columns="figure", values="value")
        clients = [one for one in of if one.startswith("contribution of client ")]
        clients = sorted(clients, key=lambda one: of[one].iloc[0])
        places = np.arange(1, len(clients) + 1)
        axis.bar(places, 100 * of[clients].iloc[0], color="0.85", label="standalone")
        for place, name in enumerate(dict.fromkeys(here["name"])):
            rewards = [one.replace("contribution", "reward") for one in clients]
            colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
            axis.plot(
                places, 100 * of.loc[name, rewards], marker, color=colour, ls="-", ms=3, label=name
            )
        axis.set(title=data, xlabel="client, by contribution", ylabel="test accuracy (%)")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    return figure


def draw_courses(trials: Sequence[Trial], folder: Path) -> None:
    """Figure 5: a panel per split, a line per client."""
    if not trials:
        return
    figure, axes = new_figure(len(trials))
    for axis, one in zip(axes, trials, strict=False):
        scored = one.run.evaluations
        scored = scored[scored["client"] >= 0]
        for client, rows in scored.groupby("client"):
            colour = COLOURS[int(client) % len(COLOURS)]
            axis.plot(rows["version"], 100 * rows["accuracy"], color=colour, label=f"{client}")
        axis.set(title=one.data, xlabel="round", ylabel="test accuracy (%)")
        axis.legend(fontsize="x-small", ncols=2, title="client")
        axis.grid(alpha=0.3)
    save_figure(figure, folder, "figure5")


def draw_lorenz(trials: Sequence[Trial], folder: Path) -> None:
    """A panel per split, a line per seed: the share of importance that the least units have."""
    columns = list(dict.fromkeys(one.data for one in trials))
    if not columns:
        return
    figure, axes = new_figure(len(columns))
    for axis, data in zip(axes, columns, strict=True):
        for one in (trial for trial in trials if trial.data == data):
            units, held = lorenz_curve(last_importance(one.run))
            axis.plot(100 * units, 100 * held, label=f"seed {one.seed}")
        axis.plot([0, 100], [0, 100], ":", color="0.5")
        axis.set(title=data, xlabel="units, least important first (%)", ylabel="importance (%)")
        axis.legend(fontsize="x-small")
        axis.grid(alpha=0.3)
    save_figure(figure, folder, "lorenz")


def _recorded(exhibits: Sequence[str]) -> list[dict[Hashable, Any]]:
    """The rows of these exhibits at the paper's size, but those of settings above the floor."""
    rows = read_results(RESULTS / "fedsac.csv")
    rows = rows[rows["exhibit"].isin(exhibits) & rows["scale"].eq("paper")]
    return (
        rows[~rows["name"].str.endswith("_floor")]
        .drop(columns=["commit", "platform"])
        .to_dict("records")
    )


def _of(draw: Callable[[pd.DataFrame], Figure]) -> Callable[[list[dict[Hashable, Any]]], Figure]:
    return lambda rows: draw(pd.DataFrame(rows))


PICTURES = (
    PagePicture(PAGES / "fedsac_fairness.png", partial(_recorded, ["table1"]), _of(draw_plane)),
    PagePicture(
        PAGES / "fedsac_rewards.png", partial(_recorded, ["figure4", "figure6"]), _of(draw_clients)
    ),
)
"""The page's pictures: Figure 3 of Table 1's rows, and Figures 4 and 6."""
