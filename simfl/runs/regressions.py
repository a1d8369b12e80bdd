"""Warnings of a regression's R^2 that are known before the run (docs/warnings.md)."""

from __future__ import annotations

import numpy as np

from simfl.assembly.simulation import Simulation
from simfl.common.notices import Notice, notice

MOST_CLASSES = 100
"""Targets of so many different whole numbers, or fewer, may be classes."""


def perhaps_classes(simulation: Simulation) -> list[Notice]:
    """Targets that are whole numbers in a type of real numbers, or have one 1 per row."""
    data = simulation.partitioned.data
    if data.task != "regression" or not simulation.algorithm.learns:
        return []
    held = [examples.targets.cpu().numpy() for examples in simulation.partitioned.clients]
    targets = np.concatenate([*held, data.test.targets.cpu().numpy()])
    if not targets.size or (targets != np.round(targets)).any() or (targets < 0).any():
        return []
    columns = targets.shape[1] if targets.ndim > 1 else 1
    if columns > 1:
        seem_classes = bool((targets.max(axis=1) == 1).all() and (targets.sum(axis=1) == 1).all())
        what = f"rows of {columns} numbers with a single 1 each (one-hot)"
        labels = "y.argmax(axis=1)"
    else:
        kinds = np.unique(targets).size
        seem_classes = 1 < kinds <= min(MOST_CLASSES, targets.size // 4)
        what, labels = f"only {kinds} different whole numbers, as real numbers", "y.astype('int64')"
    if not seem_classes:
        return []
    message = (
        f"the targets are {what}, and are learned as a regression (R^2 instead of accuracy); as"
        f" classes they would be {labels}"
    )
    return [notice("perhaps_classes", message)]


def equal_targets(simulation: Simulation) -> list[Notice]:
    """A test set whose R^2 would be a division by 0."""
    data = simulation.partitioned.data
    if data.task != "regression" or not simulation.algorithm.learns:
        return []
    targets = data.test.targets
    if not len(targets) or not bool((targets == targets[:1]).all()):
        return []
    message = (
        f"all targets of the test set are equal ({len(targets):,} examples): R^2 divides by"
        " their variance, and is undefined"
    )
    return [notice("equal_targets", message, len(targets))]


def equal_targets_of_clients(simulation: Simulation) -> list[Notice]:
    """Clients whose R^2 on their own data would be a division by 0."""
    partitioned = simulation.partitioned
    if partitioned.data.task != "regression" or not simulation.algorithm.learns:
        return []
    own = [examples.targets for examples in partitioned.client_tests or partitioned.clients]
    without = sum(bool((targets == targets[:1]).all()) for targets in own)
    if not without:
        return []
    message = (
        f"{without} of {len(own)} clients have one example, or examples of one target: their own"
        " R^2 is undefined, and minima, means and indices over clients leave them out"
    )
    return [notice("equal_targets_of_clients", message, without)]
