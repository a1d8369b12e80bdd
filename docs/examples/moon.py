"""MOON (Li, He, Song, CVPR 2021, arXiv 2103.16257): a model is contrasted with two others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from simfl.plugins import (
    Algorithm,
    Brief,
    ClientFacts,
    Evaluator,
    Minibatch,
    Network,
    Parameters,
    Price,
    ServerState,
    Update,
)


@dataclass(frozen=True)
class Moon(Algorithm):
    """FedAvg whose clients keep their features near the global model's, and off their last one's.

    The state's memory holds the model that each client sent last; it lies with the client. One that
    has sent none is contrasted with the global model twice: a constant, with no gradient.
    """

    mu: Annotated[float, ">= 0", "weight of the contrast"] = 1.0
    temperature: Annotated[float, "> 0", "tau"] = 0.5
    layer: Annotated[str | None, "the module whose input is taken as features; null: the head"] = (
        None
    )

    paper: ClassVar[str] = "arXiv 2103.16257"

    def check_network(self, network: Network) -> None:
        """Refuses a `layer` that the model does not have."""
        network.feature_layer(self.layer)

    def start(
        self, network: Network, clients: Mapping[int, ClientFacts], evaluator: Evaluator, seed: int
    ) -> ServerState:
        """Nobody has sent a model."""
        return replace(super().start(network, clients, evaluator, seed), memory={"last": {}})

    def brief(self, network: Network, state: ServerState, client: int, held: int) -> Brief:
        """The client's last model is its own tensors: `batch.own` in the loss."""
        last = state.memory["last"].get(client, {})
        return replace(super().brief(network, state, client, held), own=last)

    def price(self, network: Network, client: int, version: int) -> Price:
        """Three passes forward and one back, which is as much as two: 5 units for 3."""
        return replace(super().price(network, client, version), work=5 / 3)

    def loss(self, parameters: Parameters, batch: Minibatch) -> Tensor:
        """l_sup - mu log(e^s(z_glob) / (e^s(z_glob) + e^s(z_prev))), s(y) = cos(z, y) / tau."""
        outputs, z = batch.features(parameters, batch.inputs, self.layer)
        if not batch.own:
            return batch.mean_loss(outputs) + self.mu * math.log(2.0)
        z = z.flatten(2)
        with torch.no_grad():
            z_glob = batch.features(batch.start, batch.inputs, self.layer)[1]
            z_prev = batch.features(batch.own, batch.inputs, self.layer)[1]
            apart = _unit(z_glob) - _unit(z_prev)
        # e^a / (e^a + e^b) = e^(a - b) / (e^(a - b) + e^0)
        more = (z * apart).sum(-1) / _length(z).squeeze(-1) / self.temperature
        chosen = functional.log_softmax(torch.stack([more, torch.zeros_like(more)], -1), -1)[..., 0]
        contrast = -(chosen * batch.shares).sum(-1)
        return batch.mean_loss(outputs) + self.mu * contrast

    def aggregate(
        self, state: ServerState, updates: Sequence[Update], evaluator: Evaluator
    ) -> ServerState:
        """FedAvg's mean; what the clients sent is remembered."""
        sent = {update.client: {**state.weights, **update.payload} for update in updates}
        memory = {"last": {**state.memory["last"], **sent}}
        return replace(super().aggregate(state, updates, evaluator), memory=memory)

    def merge(
        self, state: ServerState, lower: Sequence[ServerState], shares: Sequence[float]
    ) -> ServerState:
        """A higher tier mixes weights and knows every client's last model."""
        last = dict(state.memory["last"])
        for one in lower:
            last |= one.memory["last"]
        return replace(super().merge(state, lower, shares), memory={"last": last})

    def adopt(self, state: ServerState, upper: ServerState) -> ServerState:
        """A lower tier takes the weights over; what it knows of its own clients is newer."""
        last = {**upper.memory["last"], **state.memory["last"]}
        return replace(super().adopt(state, upper), memory={"last": last})


def _length(vectors: Tensor) -> Tensor:
    """Of vectors (..., features): (..., 1), and never 0."""
    length: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return length.clamp(min=1e-8)


def _unit(features: Tensor) -> Tensor:
    """Each row's features (jobs, rows, ...) as a vector of length 1: (jobs, rows, features)."""
    return features.flatten(2) / _length(features.flatten(2))
