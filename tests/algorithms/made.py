"""Updates and states made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from simfl.algorithms.base import Algorithm, ServerState
from simfl.learning.job import Brief, LocalTraining, Memory, Price, Recipe, Update

TRAINED = frozenset({"weight"})


def state_at(weight: Sequence[float], memory: Mapping[str, Any] | None = None) -> ServerState:
    """A server whose model is one vector and, beside it, a running statistic of 0."""
    weights = {
        "weight": torch.tensor(weight, dtype=torch.float64),
        "running_var": torch.zeros(1, dtype=torch.float64),
        "steps": torch.tensor(0),
    }
    return ServerState(weights, memory=memory or {})


def update_of(
    state: ServerState,
    client: int,
    change: Sequence[float],
    loss: float,
    *,
    examples: int = 10,
    learning_rate: float = 0.1,
    statistic: float = 0.0,
    steps: int = 0,
) -> Update:
    """What `client` sends back after its weights moved by `change`."""
    recipe = Recipe(LocalTraining(learning_rate=learning_rate), trainable=TRAINED)
    payload = {
        "weight": state.weights["weight"] + torch.tensor(change, dtype=torch.float64),
        "running_var": torch.full((1,), statistic, dtype=torch.float64),
        "steps": torch.tensor(7),
    }
    return Update(
        client=client,
        brief=Brief(state.weights, recipe, Price(0, 0)),
        payload=payload,
        memory=Memory(),
        num_examples=examples,
        version=0,
        measures={"loss_before": loss},
        steps=steps,
    )


def aggregated(algorithm: Algorithm, state: ServerState, *updates: Update) -> list[float]:
    """The vector after aggregation."""
    after = algorithm.aggregate(state, updates, None)  # type: ignore[arg-type] # not used
    return after.weights["weight"].tolist()
