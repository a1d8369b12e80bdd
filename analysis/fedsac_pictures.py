"""FedSAC's figures: fairness against accuracy, rewards by client, clients' courses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from fedsac_units import last_importance, lorenz_curve

from paper import Trial, new_figure, save_figure
from simfl.pictures.colours import COLOURS

MARKERS = "osD^v<>P*X"


def draw_plane(values: pd.DataFrame, folder: Path, file: str) -> None:
    """Figure 3: a panel per data set, a colour per method, a marker per split; means over seeds."""
    if values.empty:
        return
    split = values["data"].str.split(" ", n=1, expand=True)
    values = values.assign(of=split[0], scene=split[1])
    groups = list(values.groupby("of", sort=False))
    figure, axes = new_figure(len(groups))
    for axis, (data, rows) in zip(axes, groups, strict=False):
        means = rows.groupby(["name", "scene", "figure"], sort=False)["value"].mean().unstack()
        if "fairness" not in means:
            continue
        names, scenes = (list(means.index.unique(level)) for level in ("name", "scene"))
        for (name, scene), row in means.dropna(subset="fairness").iterrows():
            axis.scatter(
                row["fairness"],
                100 * row["reward_max"],
                color=COLOURS[names.index(name) % len(COLOURS)],
                marker=MARKERS[scenes.index(scene) % len(MARKERS)],
                label=f"{name}, {scene}",
            )
        axis.set(title=data, xlabel="fairness", ylabel="accuracy of the best client (%)")
        axis.grid(alpha=0.3)
        axis.legend(fontsize="xx-small", ncols=2)
    save_figure(figure, folder, file)


def draw_clients(trials: Sequence[Trial], folder: Path, name: str) -> None:
    """Figures 4 and 6: a panel per split; clients by contribution, a line per method."""
    columns = list(dict.fromkeys(one.data for one in trials))
    if not columns:
        return
    figure, axes = new_figure(len(columns))
    for axis, data in zip(axes, columns, strict=False):
        here = [one for one in trials if one.data == data]
        order = here[0].run.clients["contribution"].argsort().to_numpy()
        places = np.arange(1, len(order) + 1)
        contribution = 100 * here[0].run.clients["contribution"].to_numpy()[order]
        axis.bar(places, contribution, color="0.85", label="standalone")
        for one, colour in zip(here, COLOURS, strict=False):
            reward = 100 * one.run.clients["reward_accuracy"].to_numpy()[order]
            axis.plot(places, reward, "o-", color=colour, markersize=3, label=one.name)
        axis.set(title=data, xlabel="client, by contribution", ylabel="test accuracy (%)")
        axis.legend(fontsize="x-small")
    save_figure(figure, folder, name)


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
