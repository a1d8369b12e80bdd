"""Ditto: each client also trains a personal model, which is kept near the global model.

Li, Hu, Beirami, Smith: Ditto: Fair and Robust Federated Learning Through Personalization, ICML
2021, arXiv 2012.04221.

    w^t       global weights received                        `Minibatch.start`
    w_k       client k's model for the global objective      `parameters`
    v_k       client k's personal model                      `parameters["personal/..."]`
    F_k       mean loss on client k's data                   `Minibatch.mean_loss`
    lambda    weight of the distance to the global model     `closeness`
    eta, s    step size and steps of v_k                     `local`

Algorithm 1 with FedAvg as the solver of G: "v_k <- v_k - eta (grad F_k(v_k) + lambda (v_k - w^t))"
is the gradient of h_k(v_k; w^t) = F_k(v_k) + lambda / 2 ||v_k - w^t||^2 (the paper's bi-level
objective): F_k(v_k) is a term of `loss`, the distance is the recipe's `proximal_beside`. The other
term trains w_k; the two terms share no parameter, so each model has its own gradient. v_k is the
model that serves the client.

Departures from the paper: 1. both models use the same mini-batches, number of steps and step size;
2. v_k begins as the first global model that the client receives; 3. the paper chooses lambda for
each data set, and for each client by validation; simfl has one lambda for all, by default 0.1.

Known limits: models with BatchNorm are refused, because there is only one set of running
statistics.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from torch import Tensor

from simfl.algorithms.base import Algorithm, ServerState
from simfl.learning.job import Brief, Memory, Price, Recipe
from simfl.learning.minibatch import Minibatch
from simfl.learning.network import Network
from simfl.learning.parameters import Parameters

PERSONAL = "personal/"
"""Prefix of the names of the personal model's tensors."""


@dataclass(frozen=True)
class Ditto(Algorithm):
    """Federated averaging with an additional personal model per client."""

    name: ClassVar[str] = "ditto"
    paper: ClassVar[str] = "arXiv 2012.04221"
    personal: ClassVar[bool] = True

    closeness: Annotated[float, ">= 0", "lambda, weight of the distance to the global model"] = 0.1

    def check_network(self, network: Network) -> None:
        """Refuses BatchNorm: there is one set of running statistics for two models."""
        if network.normalisation:
            raise ValueError(
                "its two models cannot share BatchNorm's running statistics; accepted: a model"
                " without BatchNorm"
            )

    def recipe(self, network: Network, version: int) -> Recipe:
        """Trains a second set of the model's parameters, kept near the received weights."""
        names = frozenset(PERSONAL + name for name in network.trainable_names)
        recipe = super().recipe(network, version)
        return replace(recipe, beside=names, proximal_beside=self.closeness)

    def brief(self, network: Network, state: ServerState, client: int, held: int) -> Brief:
        """Sets v_k before the client's first round."""
        first = {PERSONAL + name: state.weights[name] for name in network.trainable_names}
        return replace(
            super().brief(network, state, client, held), start={**state.weights, **first}
        )

    def price(self, network: Network, client: int, version: int) -> Price:
        """One model is sent in each direction; two are trained."""
        return replace(super().price(network, client, version), work=2.0)

    def loss(self, parameters: Parameters, batch: Minibatch) -> Tensor:
        """F_k(w_k) + F_k(v_k), one value per job; the recipe holds v_k near w^t."""
        w = {name: one for name, one in parameters.items() if PERSONAL not in name}
        v = w | {
            name.removeprefix(PERSONAL): one for name, one in parameters.items() if PERSONAL in name
        }
        losses = [batch.mean_loss(batch.forward(one, batch.inputs)) for one in (w, v)]
        return losses[0] + losses[1]

    def served(self, state: ServerState, client: int, memory: Memory) -> list[Parameters]:
        """The client's personal model, once it has one."""
        own = {name.removeprefix(PERSONAL): tensor for name, tensor in memory.private.items()}
        return [{**state.weights, **own}]
