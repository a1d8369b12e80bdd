"""MOON: FedAvg with features kept near the global model's, and away from the last local model's.

Li, He, Song: Model-Contrastive Federated Learning, CVPR 2021, arXiv 2103.16257.

    w^t           global weights received                        `Minibatch.start`
    w_i^{t-1}     the model that party i sent last               `Minibatch.own`, `memory["last"]`
    w_i^t         the model that is trained                      `parameters`
    R_w(x)        features of x: (jobs, rows, ...)               `Minibatch.features`, `layer`
    z             R of the trained model
    z_glob        R of the global model
    z_prev        R of the party's last one
    mu            weight of the contrast                         `mu`
    tau           temperature                                    `temperature`

With s(y) = cos(z, y) / tau, Eq. 3, l_con = -log(e^s(z_glob) / (e^s(z_glob) + e^s(z_prev))), and Eq.
4, l = l_sup + mu l_con, are `loss`; aggregation is FedAvg's (Algorithm 1). tau 0.5 and mu 1 are the
defaults of its published code (github.com/QinbinLi/MOON, main.py), whose command for CIFAR-10 has
mu 5. That the paper found 1 best for CIFAR-100 and 10 for Tiny-ImageNet is from memory and was not
checked.

z_glob and z_prev do not change while a party trains: for a multi-layer perceptron, simfl computes
them once for each row. The simulated party computes them for each batch, like the published code,
which may augment data; `price` counts that.

Departures from the paper: 1. features are the input of the model's head, or of the module `layer`;
the paper's additional projection head would be a layer of your own model; 2. a party that has sent
no model yet is contrasted with the global one twice: a constant, with no gradient.

Known limits: if a protocol rebases late updates (`buffered`, or late updates carried over) or a
codec acts, the last model is the server's copy of the party's model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from simfl.algorithms.base import Algorithm, ClientFacts, ServerState
from simfl.learning.evaluate import Evaluator
from simfl.learning.job import Brief, Price, Update
from simfl.learning.minibatch import Minibatch
from simfl.learning.network import Network
from simfl.learning.parameters import Parameters


@dataclass(frozen=True)
class Moon(Algorithm):
    """Model-contrastive federated learning."""

    name: ClassVar[str] = "moon"
    paper: ClassVar[str] = "arXiv 2103.16257"

    mu: Annotated[float, ">= 0", "weight of the contrast"] = 1.0
    temperature: Annotated[float, "> 0", "tau"] = 0.5
    layer: Annotated[str | None, "the module whose input is taken as features; null: the head"] = (
        None
    )

    def check_network(self, network: Network) -> None:
        """Refuses a `layer` that the model does not have."""
        network.feature_layer(self.layer)

    def start(
        self, network: Network, clients: Mapping[int, ClientFacts], evaluator: Evaluator, seed: int
    ) -> ServerState:
        """No party has sent a model."""
        return replace(super().start(network, clients, evaluator, seed), memory={"last": {}})

    def brief(self, network: Network, state: ServerState, client: int, held: int) -> Brief:
        """w_i^{t-1} lies with the party and reaches the loss as its own tensors; none at first."""
        last = state.memory["last"].get(client, {})
        return replace(super().brief(network, state, client, held), own=last)

    def price(self, network: Network, client: int, version: int) -> Price:
        """Three forward passes and one backward pass, which counts as two: 5 units instead of 3."""
        return replace(super().price(network, client, version), work=5 / 3)

    def loss(self, parameters: Parameters, batch: Minibatch) -> Tensor:
        """l_sup + mu l_con, one value per job (Eqs. 3 and 4)."""
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
        """FedAvg's mean; the parties' models are remembered."""
        sent = {update.client: {**state.weights, **update.payload} for update in updates}
        memory = {"last": {**state.memory["last"], **sent}}
        return replace(super().aggregate(state, updates, evaluator), memory=memory)

    def merge(
        self, state: ServerState, lower: Sequence[ServerState], shares: Sequence[float]
    ) -> ServerState:
        """A higher tier mixes weights and knows every party's last model."""
        last = dict(state.memory["last"])
        for one in lower:
            last |= one.memory["last"]
        return replace(super().merge(state, lower, shares), memory={"last": last})

    def adopt(self, state: ServerState, upper: ServerState) -> ServerState:
        """A lower tier takes the weights over; its own records of its clients are newer."""
        last = {**upper.memory["last"], **state.memory["last"]}
        return replace(super().adopt(state, upper), memory={"last": last})


def _length(vectors: Tensor) -> Tensor:
    """The length of vectors (..., features): (..., 1), never 0."""
    length: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return length.clamp(min=1e-8)


def _unit(features: Tensor) -> Tensor:
    """Each row's features (jobs, rows, ...) as a vector of length 1: (jobs, rows, features)."""
    return features.flatten(2) / _length(features.flatten(2))
