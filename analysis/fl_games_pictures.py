"""Pictures of the FL Games paper: sample images, LIME masks, curves by round, bars."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from paper import END, Study, Trial, new_figure, plot_means, save_figure
from simfl.assembly.assemble import assemble
from simfl.common.files import DataMissing
from simfl.learning.datasets.base import Examples
from simfl.measures.lime_masks import LimeMasks, share_on
from simfl.pictures.colours import COLOURS
from simfl.runs.execution import federation_of
from simfl.scenario.scenario import Scenario
from simfl.scenario.yaml_source.error import ScenarioError
from simfl.study.targets import median_and_bound

SAMPLES = 10
TEN_COLOURS = np.array(
    [
        (1.0, 0.2, 0.2), (0.2, 1.0, 0.2), (0.3, 0.3, 1.0), (1.0, 1.0, 0.2), (1.0, 0.3, 1.0),
        (0.2, 1.0, 1.0), (1.0, 0.6, 0.2), (0.6, 0.3, 1.0), (0.6, 0.6, 0.6), (0.5, 0.8, 0.5),
    ]
)  # fmt: skip


def draw_samples(study: Study, scenario: Scenario, data: str, name: str) -> pd.DataFrame:
    """Training images of the first client and test images, by label; how many there are of each."""
    try:
        shards = assemble(scenario, study.options).partitioned
    except ScenarioError as error:
        if not isinstance(error.__cause__, DataMissing):
            raise
        study.skipped[data] = str(error.__cause__)
        print(f"SKIPPED {data}: {error.__cause__}\n", flush=True)
        return pd.DataFrame(columns=["data", "name", "seed", "figure", "value"])
    figure, axes = new_figure(2, height=2.6)
    parts = {"training, client 0": shards.clients[0], "test": shards.data.test}
    for axis, (title, part) in zip(axes, parts.items(), strict=True):
        _draw_images(axis, part)
        axis.set(title=f"{data}: {title}", xlabel="label")
    save_figure(figure, study.folder, name)
    sizes = {f"{index}": len(own) for index, own in enumerate(shards.clients)}
    sizes["test"] = len(shards.data.test)
    rows = [(data, key, 0, "examples", float(size)) for key, size in sizes.items()]
    return pd.DataFrame(rows, columns=["data", "name", "seed", "figure", "value"])


def _draw_images(axis: Axes, part: Examples) -> None:
    """Two rows of images in the order of their labels."""
    order = np.argsort(part.targets[: 2 * SAMPLES].numpy(), kind="stable")
    images = [_rgb(part.inputs[row].double().numpy()) for row in order]
    rows = [np.concatenate(images[start : start + SAMPLES], axis=1) for start in (0, SAMPLES)]
    axis.imshow(np.concatenate(rows, axis=0).clip(0, 1))
    width = images[0].shape[1]
    labels = part.targets[order[SAMPLES:]].tolist()
    axis.set_xticks([width * (place + 0.5) for place in range(SAMPLES)], labels)
    axis.set_yticks([])


def _rgb(image: np.ndarray) -> np.ndarray:
    """(channels, height, width) as colours: of 2 channels red and green, of more a colour each."""
    if image.shape[0] == 2:
        image = np.concatenate([image, np.zeros_like(image[:1])])
    if image.shape[0] == 3:
        return np.moveaxis(image, 0, 2)
    return np.tensordot(image, TEN_COLOURS[: image.shape[0]], axes=(0, 0))


def draw_masks(
    study: Study, measure: LimeMasks, trials: Sequence[Trial], name: str
) -> pd.DataFrame:
    """A test image and LIME's five strongest segments per model; the share on the stroke."""
    rows = []
    figure, axes = new_figure(1 + len(trials), height=3.2)
    for axis, trial in zip(axes[1:], trials, strict=True):
        federation = federation_of(trial.run.path, study.options)
        figures = measure.assess(trial.run, federation, np.random.default_rng(trial.seed))
        rows += [(trial.data, trial.name, trial.seed, key, one) for key, one in figures.items()]
        image = federation.tests[0].inputs[0].double().numpy()
        weights, segments, stroke = measure.explain(
            federation.network, federation.weights, image, np.random.default_rng(0)
        )
        best = np.argsort(weights)[-5:]
        shown = np.isin(segments, best[weights[best] > 0])
        axes[0].imshow(_rgb(image).clip(0, 1))
        axis.imshow(np.where(shown[..., None], 0.35 + 0.65 * _rgb(image), 0.3 * _rgb(image)))
        axis.set_title(f"{trial.name}: {share_on(weights, segments, stroke):.2f} on the stroke")
    save_figure(figure, study.folder, name)
    return pd.DataFrame(rows, columns=["data", "name", "seed", "figure", "value"])


def training_curve(trial: Trial) -> pd.Series:
    """The ensemble's training accuracy by round."""
    train = trial.run.evaluations.query("on == 'train'")
    return train.set_index("version")["accuracy"]


def draw_curves(study: Study, trials: Sequence[Trial], name: str) -> None:
    """Training and test accuracy by round, a line per variant."""
    if not trials:
        return
    figure, axes = new_figure(2)
    plot_means(axes[0], trials, training_curve)
    plot_means(axes[1], trials)
    axes[0].set(title=trials[0].data, xlabel="round", ylabel="training accuracy", ylim=(0, 1))
    axes[1].set(title=trials[0].data, xlabel="round", ylabel="test accuracy", ylim=(0, 1))
    save_figure(figure, study.folder, name)


def draw_bars(study: Study, values: pd.DataFrame, shown: Sequence[str], name: str) -> None:
    """A panel per figure: its mean and standard deviation by name.

    A hollow bar is the median over all seeds, or what that lies above, where some were cut short.
    """
    if values.empty:
        return
    figure, axes = new_figure(len(shown))
    for axis, one in zip(axes, shown, strict=True):
        own = values[values["figure"] == one].groupby("name", sort=False)["value"]
        spread = own.agg(["mean", "std"])
        spread.loc[own.count() < own.size()] = np.nan
        axis.bar(spread.index, spread["mean"], yerr=spread["std"], color=COLOURS[0])
        ends = values[values["figure"] == f"{one}{END}"].groupby("name", sort=False)["value"]
        for method in spread.index[spread["mean"].isna()].intersection(list(ends.groups)):
            known = median_and_bound(*(by.get_group(method).to_numpy() for by in (own, ends)))
            axis.bar(method, np.nansum(known), fill=False, edgecolor=COLOURS[0])
        axis.set(title=str(values["data"].iloc[0]), ylabel=one.replace("_", " "))
        axis.tick_params(axis="x", rotation=60)
    save_figure(figure, study.folder, name)
