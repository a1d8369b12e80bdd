"""Warnings of a regression's R^2 that are known before the run (docs/warnings.md)."""

from __future__ import annotations

from simfl.assembly.simulation import Simulation
from simfl.common.notices import Notice, notice


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
    own = [examples.targets for examples in partitioned.clients]
    without = sum(bool((targets == targets[:1]).all()) for targets in own)
    if not without:
        return []
    message = (
        f"{without} of {len(own)} clients have one example, or examples of one target: their own"
        " R^2 is undefined, and minima, means and indices over clients leave them out"
    )
    return [notice("equal_targets_of_clients", message, without)]
