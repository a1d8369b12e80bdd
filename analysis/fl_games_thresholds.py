"""Where a game would have ended under other rules: read off games that are not ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from paper import Study, Trial, new_figure, plot_means, save_figure
from simfl.runs.runfolder import LoadedRun

THRESHOLDS = np.round(np.arange(0.55, 0.7501, 0.01), 2)
SHOWN = (0.55, 0.60, 0.65, 0.70, 0.75)

# Behind a variant's name: rounds before which nothing ends it (None: as many as it has players),
# and the round of low accuracy, counted from then on, that does.
RULES: Mapping[str, tuple[int | None, int]] = {
    "": (None, 1),
    "_warm_100": (100, 1),
    "_low_3": (None, 3),
}


def course(run: LoadedRun) -> pd.DataFrame:
    """Training and test accuracy of the ensemble (columns train, test) by round."""
    train = run.evaluations.query("on == 'train'").set_index("version")["accuracy"]
    test = run.rounds.set_index("version")["accuracy"]
    return pd.DataFrame({"train": train, "test": test}).dropna()


def settled(course: pd.DataFrame, threshold: float, warm_start: int, low: int) -> int | None:
    """The round of number `low` below the threshold after the warm start; None: there is none."""
    after = course[(course.index > warm_start) & (course["train"] < threshold)]
    return int(after.index[low - 1]) if len(after) >= low else None


def by_threshold(
    trials: Sequence[Trial], warm_start: Mapping[tuple[str, str], int]
) -> pd.DataFrame:
    """Rounds, training and test accuracy where each rule would have ended a game, by threshold.

    One row per (data, name, seed, figure), a figure being "test_accuracy_at_0.60" or the like; none
    where the rule would not have ended the game. "lowest" is the least training accuracy after the
    warm start, which is the variant's own in `warm_start`, by data set and name.
    """
    rows = [
        (trial.data, trial.name + rule, trial.seed, figure, value)
        for trial in trials
        for rule, (warm, low) in RULES.items()
        for figure, value in _figures(
            course(trial.run), warm_start[trial.data, trial.name] if warm is None else warm, low
        )
    ]
    return pd.DataFrame(rows, columns=["data", "name", "seed", "figure", "value"])


def _figures(course: pd.DataFrame, warm_start: int, low: int) -> Iterator[tuple[str, float]]:
    after = course[course.index > warm_start]
    if len(after):
        yield "lowest", after["train"].min()
    for threshold in THRESHOLDS:
        at = settled(course, threshold, warm_start, low)
        if at is not None:
            yield f"rounds_at_{threshold:.2f}", at
            yield f"train_accuracy_at_{threshold:.2f}", course.loc[at, "train"]
            yield f"test_accuracy_at_{threshold:.2f}", course.loc[at, "test"]


def draw(study: Study, trials: Sequence[Trial], values: pd.DataFrame, name: str) -> None:
    """Test accuracy, and rounds, against the threshold: a line per game and rule."""
    ended = set(values.loc[values["figure"].str.startswith("rounds_at_"), "name"])
    ruled = [replace(one, name=one.name + rule) for one in trials for rule in RULES]
    ruled = [one for one in ruled if one.name in ended]
    if not ruled:
        return

    def line(key: str, trial: Trial) -> pd.Series:
        own = values[(values["name"] == trial.name) & (values["seed"] == trial.seed)]
        own = own[own["figure"].str.startswith(f"{key}_at_") & (own["data"] == trial.data)]
        return own.set_index(own["figure"].str.rsplit("_", n=1).str[1].astype(float))["value"]

    figure, axes = new_figure(2)
    for axis, key in zip(axes, ("test_accuracy", "rounds"), strict=True):
        plot_means(axis, ruled, partial(line, key))
        axis.set(title=trials[0].data, xlabel="threshold", ylabel=key.replace("_", " "))
    save_figure(figure, study.folder, name)
