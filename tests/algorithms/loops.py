"""Common parts of loops that are written from the papers: a scenario, its data, plain torch.

A loop does not use simfl: it gets the clients' data, the first weights and the participants, and
must end with the weights of the run, to 1e-9 in float64.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor

import simfl
from simfl.learning.batched import BatchedTrainer
from simfl.learning.job import Update
from simfl.learning.task import Task
from simfl.protocols.run import Run
from tests.small import final_weights, largest_difference, simulated, small

CLIENTS, ROUNDS, STEPS, RATE = 4, 4, 3, 0.2

ALL = slice(None)

Weights = dict[str, Tensor]


def scenario(part: Mapping[str, Any], **changes: Any) -> simfl.Scenario:
    """Four unlike clients, three of which take part in a round; each step is the whole shard."""
    local = {"steps": STEPS, "batch_size": None, "learning_rate": RATE}
    sections = {
        "algorithm": {"local": local, **part},
        "data": {"validation_share": 0.7},
        "population": {"clients": CLIENTS},
        "decisions": {"selection": {"name": "random", "count": 3}},
        "stop": {"versions": ROUNDS},
    }
    return small(**{**sections, **changes})


def selected(folder: Path) -> list[list[int]]:
    """Who took part, round by round."""
    events = pd.read_parquet(folder / "events.parquet")
    return [json.loads(one)["selected"] for one in events.loc[events["kind"] == "select", "detail"]]


def paid(folder: Path) -> dict[str, float]:
    """Bytes down and up, and cycles of clients."""
    sums = pd.read_parquet(folder / "events.parquet").groupby("kind")[["bytes", "cycles"]].sum()
    ways = {way: float(sums["bytes"][way]) for way in ("download", "upload")}
    return {**ways, "cycles": float(sums["cycles"]["compute"])}


Drawn = dict[tuple[int, int], list[Tensor]]
"""By version and client: the rows of each mini-batch that was drawn for its training."""


@contextmanager
def drawing() -> Iterator[Drawn]:
    """Notes the mini-batches of all training inside."""
    drawn: Drawn = {}
    train = BatchedTrainer.train

    def noted(self: BatchedTrainer, tasks: Sequence[Task]) -> list[Update]:
        for task in tasks:
            drawn[task.version, task.client] = task.batches(self.network)
        return train(self, tasks)

    BatchedTrainer.train = noted  # type: ignore[method-assign]
    try:
        yield drawn
    finally:
        BatchedTrainer.train = train  # type: ignore[method-assign]


class Loop:
    """The same data, first weights and mini-batches, and torch."""

    def __init__(self, run: Run, rounds: Sequence[Sequence[int]], drawn: Drawn) -> None:
        self.rounds = rounds
        self.drawn = drawn
        self.weights: Weights = dict(run.values.begin(range(CLIENTS), "cloud").value().weights)
        shards = run.values.trainer.shards
        self.inputs = [one.inputs.double().flatten(1) for one in shards]
        self.targets = [one.targets for one in shards]

    def size(self, client: int) -> int:
        """The number of its examples."""
        return len(self.targets[client])

    def features(self, weights: Weights, client: int, rows: Any = ALL) -> Tensor:
        """The hidden layer's activations."""
        return F.relu(F.linear(self.inputs[client][rows], weights["1.weight"], weights["1.bias"]))

    def loss(self, weights: Weights, client: int, rows: Any = ALL) -> Tensor:
        """Cross entropy of the client's whole shard, or of some of its rows."""
        hidden = self.features(weights, client, rows)
        outputs = F.linear(hidden, weights["3.weight"], weights["3.bias"])
        return F.cross_entropy(outputs, self.targets[client][rows])

    def slope(self, weights: Weights, client: int, rows: Any = ALL) -> Weights:
        """The gradient of `loss`."""
        own = leaves(weights)
        return gradient(self.loss(own, client, rows), own)

    def trained(self, start: Weights, client: int) -> Weights:
        """The weights after `STEPS` plain steps on the whole shard."""
        weights = start
        for _ in range(STEPS):
            slope = self.slope(weights, client)
            weights = {n: weights[n] - RATE * slope[n] for n in weights}
        return weights

    def mean(self, models: Mapping[int, Weights]) -> Weights:
        """The mean weighted by data size."""
        sizes = {client: self.size(client) for client in models}
        total = sum(sizes.values())
        return {
            name: sum(sizes[client] / total * model[name] for client, model in models.items())
            for name in self.weights
        }


def gradient(loss: Tensor, weights: Weights) -> Weights:
    """Gradients by parameter name."""
    return dict(zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True))


def leaves(weights: Weights) -> Weights:
    """Copies of tensors for which gradients are computed."""
    return {name: tensor.detach().clone().requires_grad_() for name, tensor in weights.items()}


def against(
    loop: Callable[[Loop], Any], part: Mapping[str, Any], folder: Path, **changes: Any
) -> tuple[Run, Any]:
    """The run, and the loop's other results, after comparing their final weights (to 1e-9).

    The loop returns its weights, or a tuple of these and further results.
    """
    with drawing() as drawn:
        _, run = simulated(scenario(part, **changes), folder)
        expected = final_weights(run)
    rounds = selected(folder)
    assert len(rounds) == ROUNDS and len({tuple(one) for one in rounds}) > 1

    given = loop(Loop(run, rounds, drawn))

    weights = given[0] if isinstance(given, tuple) else given
    assert largest_difference(expected, weights) < 1e-9
    return run, given
