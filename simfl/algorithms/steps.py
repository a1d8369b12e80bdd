"""Shared functions of algorithms with a server step along the clients' changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from simfl.algorithms.base import ServerState
from simfl.learning.job import Update
from simfl.learning.parameters import Parameters, add
from simfl.learning.sums import weighted_mean, weighted_sum


def changes(updates: Sequence[Update]) -> list[Parameters]:
    """Delta_s = theta_s - theta of each update, for the parameters that were trained."""
    return [
        {name: step for name, step in update.delta.items() if name in _trained(update)}
        for update in updates
    ]


def statistics(updates: Sequence[Update]) -> Parameters:
    """The plain mean of untrained tensors: running statistics, which have no gradient."""
    each = [
        {name: tensor for name, tensor in update.payload.items() if name not in _trained(update)}
        for update in updates
    ]
    return weighted_mean(each, [1.0] * len(updates))


def step_along(
    state: ServerState, updates: Sequence[Update], coefficients: Iterable[float]
) -> Parameters:
    """theta + sum_s c_s Delta_s; running statistics are averaged."""
    weights = add(state.weights, weighted_sum(changes(updates), coefficients))
    return {**weights, **statistics(updates)}


def _trained(update: Update) -> frozenset[str]:
    return update.brief.recipe.trainable or frozenset()
