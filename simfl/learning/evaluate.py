"""Evaluates models: losses and accuracies on data sets."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simfl.learning.ablation import ablation_losses
from simfl.learning.cohort_size import evaluation_rows
from simfl.learning.datasets.base import Examples
from simfl.learning.kernels.stacked_product import by_numpy
from simfl.learning.network import Network
from simfl.learning.parameters import Parameters, stack
from simfl.learning.placing import placed_sets

ROWS_PER_PASS = 1024
"""Examples in one forward pass of an evaluation on a CPU. It bounds memory, and fixes the last
bits. For accelerators see `evaluation_rows`.
"""

MODELS_PER_PASS = 8
"""Models, or groups of models, that are evaluated together. Bounds memory."""

MOST_REMEMBERED = 16
"""Members of an ensemble whose outputs are cached until the next call. Bounds memory."""


@dataclass(frozen=True)
class Metrics:
    """Mean loss (nats or squared error) and accuracy (share of right answers, or R^2)."""

    loss: float
    accuracy: float


def client_set(client: int) -> str:
    """The evaluator's name for the data that a client trains with."""
    return f"client-{client}"


def client_test_set(client: int) -> str:
    """The evaluator's name for the data that a client keeps for testing."""
    return f"client-{client}-test"


def outputs_of(network: Network, parameters: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
    """One model's outputs (rows, outputs) in evaluation mode, without gradients.

    A module that draws random numbers draws the same in every pass: see `Network.call`.
    """
    stacked = network.stacked
    with torch.no_grad():
        chunks = _passes(network, inputs)
        if stacked is not None and not stacked.convolves and by_numpy(network.device):
            alone = stack([dict(parameters)], share=True)
            return torch.cat([stacked.evaluated(alone, rows.unsqueeze(0))[0] for rows in chunks])
        return torch.cat([network.call(parameters, rows, training=False)[0] for rows in chunks])


def outputs_of_each(
    network: Network, models: Sequence[Parameters], inputs: Tensor
) -> Sequence[Tensor]:
    """Each model's outputs (rows, outputs) of the same inputs, in evaluation mode.

    In one batched pass where that is faster: for convolutions of small images on a CPU. A model's
    outputs do not depend on the other models; on an accelerator each model has passes of its own,
    with many more rows.
    """
    stacked = network.stacked
    gains = stacked is not None and stacked.convolves and not network.on.accelerates
    if stacked is None or stacked.one_by_one or not gains:
        if by_numpy(network.device) or not network.shared_links(models):
            return [outputs_of(network, model, inputs) for model in models]
        with torch.no_grad():
            by_chunk = [network.call_each(models, rows) for rows in _passes(network, inputs)]
        return [torch.cat(of_one) for of_one in zip(*by_chunk, strict=True)]
    # A single model is doubled where one model would be computed by other kernels than several.
    padded = [*models, *models[: int(stacked.single_differs and len(models) == 1)]]
    tensors = stack(padded)
    with torch.no_grad():
        chunks = [
            stacked.evaluated(tensors, chunk.expand(len(padded), *chunk.shape))
            for chunk in _passes(network, inputs)
        ]
    return torch.cat(chunks, dim=1)[: len(models)].unbind(0)


def _passes(network: Network, inputs: Tensor) -> Iterator[Tensor]:
    """The rows of one forward pass after another, on the network's device."""
    rows = evaluation_rows(network) if network.on.accelerates else ROWS_PER_PASS
    return (network.on.moved(one).to(network.dtype) for one in torch.split(inputs, rows))


def mean_loss(network: Network, parameters: Mapping[str, Tensor], examples: Examples) -> float:
    """Mean loss of one model over `examples`, in evaluation mode."""
    outputs = outputs_of(network, parameters, examples.inputs)
    losses = network.objective.per_example(outputs, examples.targets)
    return float(losses.mean(dtype=torch.float64))


_Known = Mapping[tuple[int, ...], tuple[Parameters, Tensor]]
"""Models and their outputs, by the identity of the models' tensors."""


class Evaluator:
    """Evaluates models on named sets ("test", "validation", ...).

    A figure never depends, down to the last bit, on what else was evaluated. A missing set raises
    ValueError. `seconds` is the wall time spent so far, `used` the sets that models were evaluated
    on.
    """

    def __init__(self, network: Network, sets: Mapping[str, Examples]) -> None:
        self._network = network
        self.seconds = 0.0
        self.used = set[str]()
        self._samples: dict[tuple[str, int], Examples] = {}
        self._known: dict[tuple[str, int | None], _Known] = {}
        self._sets = placed_sets(sets, network)

    def metrics(
        self, members: Sequence[Parameters], on: str = "test", at_most: int | None = None
    ) -> Metrics:
        """Loss and accuracy of the averaged outputs (logits) of `members` on the set `on`.

        With `at_most`, on a fixed random choice of that many examples. The outputs of members that
        were also in the previous call, with the very same tensors, are reused (up to
        `MOST_REMEMBERED` members).
        """
        began = time.perf_counter()
        examples = self._set(on) if at_most is None else self._sample(on, at_most)
        before = self._known.get((on, at_most), {})
        by_model = {_identity(member): member for member in members}
        new = [member for key, member in by_model.items() if key not in before]
        made = iter(outputs_of_each(self._network, new, examples.inputs) if new else ())
        known = {
            key: before[key] if key in before else (member, next(made))
            for key, member in by_model.items()
        }
        if 1 < len(members) <= MOST_REMEMBERED:
            self._known[on, at_most] = known  # with the models, which keeps their identities valid
        outputs = [known[_identity(member)][1] for member in members]
        metrics = self._scored(outputs, examples)
        self.seconds += time.perf_counter() - began
        return metrics

    def metrics_of_each(
        self, served: Iterable[Sequence[Parameters]], on: str = "test"
    ) -> list[Metrics]:
        """`metrics` of each group of models in `served`, a few groups at a time.

        A model that is in several groups is run once, and different models are run together where
        that is faster (`outputs_of_each`).
        """
        found = []
        groups = iter(served)
        while some := list(islice(groups, MODELS_PER_PASS)):
            began = time.perf_counter()
            examples = self._set(on)
            models = {_identity(member): member for members in some for member in members}
            outputs = outputs_of_each(self._network, list(models.values()), examples.inputs)
            by_model = dict(zip(models, outputs, strict=True))
            for members in some:
                own = [by_model[_identity(member)] for member in members]
                found.append(self._scored(own, examples))
            self.seconds += time.perf_counter() - began
        return found

    def _scored(self, outputs: Sequence[Tensor], examples: Examples) -> Metrics:
        """Metrics of the mean of several models' outputs, each (rows, outputs)."""
        total = outputs[0]
        for one in outputs[1:]:
            total = total + one
        mean, objective = total / len(outputs), self._network.objective
        losses = objective.per_example(mean, examples.targets)
        return Metrics(
            loss=float(losses.mean(dtype=torch.float64)),
            accuracy=objective.accuracy(mean, examples.targets),
        )

    def loss(self, members: Sequence[Parameters], on: str = "validation") -> float:
        """Mean loss of the averaged outputs of `members`."""
        return self.metrics(members, on).loss

    def accuracy(self, members: Sequence[Parameters], on: str = "test") -> float:
        """Accuracy of the averaged outputs of `members`."""
        return self.metrics(members, on).accuracy

    @property
    def network(self) -> Network:
        """The network whose models are evaluated."""
        return self._network

    def ablation_losses(self, weights: Parameters, on: str = "validation") -> Tensor:
        """Mean loss of a model without each of its hidden units: (units,), float64."""
        began = time.perf_counter()
        network, held = self._network, self._set(on)
        examples = Examples(network.on.moved(held.inputs), held.targets)
        with network.computing():
            losses = ablation_losses(network.hidden_units, network.objective, weights, examples)
        self.seconds += time.perf_counter() - began
        return losses

    def batch_losses(self, member: Parameters, batch_size: int, on: str = "validation") -> Tensor:
        """Mean loss of each batch of a set, in the set's order: (batches,), float64."""
        examples = self._set(on)
        outputs = outputs_of(self._network, member, examples.inputs)
        losses = self._network.objective.per_example(outputs, examples.targets)
        return torch.stack(
            [batch.mean(dtype=torch.float64) for batch in torch.split(losses, batch_size)]
        )

    def close(self) -> None:
        """Release the sets and the cached outputs."""
        for kept in (self._sets, self._samples, self._known):
            kept.clear()

    def num_examples(self, on: str = "test") -> int:
        """The number of examples in the set `on`."""
        return len(self._held(on))

    def holds(self, on: str) -> bool:
        """Whether a set of this name exists."""
        return on in self._sets

    def _sample(self, on: str, count: int) -> Examples:
        examples = self._set(on)
        if count >= len(examples):
            return examples
        if (on, count) not in self._samples:
            generator = torch.Generator().manual_seed(0)
            rows = torch.randperm(len(examples), generator=generator)[:count].sort().values
            self._samples[on, count] = examples.take(rows)
        return self._samples[on, count]

    def _set(self, name: str) -> Examples:
        self.used.add(name)
        return self._held(name)

    def _held(self, name: str) -> Examples:
        if name not in self._sets:
            held = ", ".join(sorted(self._sets)) or "none"
            hint = " (data.validation_share makes one)" if name == "validation" else ""
            raise ValueError(f"no {name} set at the server{hint}; sets held: {held}")
        return self._sets[name]


def _identity(model: Parameters) -> tuple[int, ...]:
    """A key that is equal for models with the very same tensors."""
    return tuple(map(id, model.values()))


def mean_scores(
    evaluator: Evaluator,
    models: Sequence[Sequence[Parameters]],
    also: Sequence[str] = (),
    of_each: str | None = None,
) -> dict[str, Any]:
    """Loss and accuracy on the test set, averaged over models (each with averaged member outputs).

    The key `also` has [loss, accuracy] on each of these sets by its name; `of_each` has those of
    every model on the test set.
    """

    def rows(on: str) -> list[list[float]]:
        found = evaluator.metrics_of_each(models, on)
        return [[metrics.loss, metrics.accuracy] for metrics in found]

    test = rows("test")
    loss, accuracy = np.mean(test, axis=0).tolist()
    scores: dict[str, Any] = {"loss": loss, "accuracy": accuracy}
    if also:
        scores["also"] = {on: np.mean(rows(on), axis=0).tolist() for on in also}
    return scores if of_each is None else {**scores, of_each: test}


def scores_at_clients(
    evaluator: Evaluator, models: Mapping[int, Sequence[Parameters]]
) -> list[list[float]]:
    """[loss, accuracy] of each client's models, with outputs averaged, on its own data.

    These are the examples that clients test with, if they keep any (NaN for a client that has
    none), or else those that they train with. Clients are in order of their numbers.
    """
    found = []
    for client in sorted(models):
        test = client_test_set(client)
        on = test if evaluator.holds(test) else client_set(client)
        if evaluator.num_examples(on):
            metrics = evaluator.metrics(models[client], on)
            found.append([metrics.loss, metrics.accuracy])
        else:
            found.append([math.nan, math.nan])
    return found
