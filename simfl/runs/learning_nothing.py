"""Warnings of models that do not learn: worse, unchanged, or only guessing."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from simfl.assembly.simulation import Simulation
from simfl.common.accuracy_name import accuracy_name
from simfl.common.notices import Notice, notice
from simfl.protocols.run import Run

LOSS_MARGIN = 1.05
"""A loss counts as above another if it is larger by this factor."""

FEWEST_EVALUATIONS = 5
"""So many equal accuracies are no coincidence."""


def not_learning(simulation: Simulation, one: Run) -> Iterator[Notice]:
    """All of these rules; the last one only if no other applies.

    Clients' own models are made for their own examples, so the test set's say nothing of them.
    """
    if simulation.own_models:
        return
    told = [*_loss_above_start(simulation, one), *_constant_accuracy(simulation, one)]
    yield from told or _only_guesses(simulation, one)


def _loss_above_start(simulation: Simulation, one: Run) -> Iterator[Notice]:
    """The last evaluated loss is above that of the initial model."""
    scored = [row for row in one.publications.rounds if row["loss"] is not None]
    if not scored:
        return
    data = simulation.partitioned.data
    # An untrained classifier is no better than guessing, so a lower loss needs no evaluation.
    if data.task == "classification" and scored[-1]["loss"] <= math.log(data.outputs):
        return
    start = one.values.loss_at_start(one.all_clients.tolist())
    above = [row for row in scored if row["loss"] > LOSS_MARGIN * start]
    if scored[-1] in above:
        last = f"{scored[-1]['loss']:.4g}, that of the untrained model {start:.4g}"
        message = f"the last test loss is {last}"
        yield notice("loss_above_start", message, len(above), above[0]["time_s"])


def _constant_accuracy(simulation: Simulation, one: Run) -> Iterator[Notice]:
    """Every evaluation gives the same accuracy."""
    scored = [row for row in one.publications.rounds if row["accuracy"] is not None]
    accuracies = {row["accuracy"] for row in scored}
    if len(scored) >= FEWEST_EVALUATIONS and len(accuracies) == 1 and max(accuracies) < 1.0:
        figure = accuracy_name(simulation.partitioned.data.task)
        message = f"all {len(scored)} evaluations give the test {figure} {max(accuracies):.4g}"
        yield notice("constant_accuracy", message, len(scored), scored[0]["time_s"])


def _only_guesses(simulation: Simulation, one: Run) -> Iterator[Notice]:
    """The last version is no better than one that ignores its inputs.

    Among those, always naming the most frequent class of the test set has the best accuracy, and
    giving every class its share has the best loss: the entropy of the shares.
    """
    scored = [row for row in one.publications.rounds if None not in (row["accuracy"], row["loss"])]
    data = simulation.partitioned.data
    if not scored or data.task != "classification" or not simulation.algorithm.learns:
        return
    tested = np.bincount(data.test.targets.cpu().numpy())
    share = tested[tested > 0] / tested.sum()
    guessed_loss = float(-(share * np.log(share)).sum())
    accuracy, loss = scored[-1]["accuracy"], scored[-1]["loss"]
    if share.size > 1 and accuracy <= share.max() and loss >= guessed_loss:
        message = (
            f"the last model only guesses: its test accuracy {accuracy:.4g} is not above that of"
            f" always predicting the most frequent class, {share.max():.4g}, and its loss"
            f" {loss:.4g} is not below that of predicting the class shares, {guessed_loss:.4g}"
        )
        yield notice("only_guesses", message)
