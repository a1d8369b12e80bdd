"""Ditto (Li, Hu, Beirami, Smith, ICML 2021, arXiv 2012.04221): two models a client."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from torch import Tensor

from simfl.plugins import (
    Algorithm,
    Brief,
    Memory,
    Minibatch,
    Network,
    Parameters,
    Price,
    Recipe,
    ServerState,
)

PERSONAL = "personal/"


@dataclass(frozen=True)
class Ditto(Algorithm):
    """FedAvg; beside the model each client trains one of its own, near the global one.

    Both take the same mini-batches, steps and learning rate. The personal model begins as the first
    global model that the client receives, stays with it, and is what it is served.
    """

    closeness: Annotated[float, ">= 0", "lambda, weight of the distance to the global model"] = 0.1

    paper: ClassVar[str] = "arXiv 2012.04221"
    personal: ClassVar[bool] = True

    def check_network(self, network: Network) -> None:
        """Refuses BatchNorm: there is one set of running statistics, and two models."""
        if network.normalisation:
            raise ValueError("its two models cannot share BatchNorm's running statistics")

    def recipe(self, network: Network, version: int) -> Recipe:
        """A second set of the model's parameters is trained beside it, held near what it gets."""
        names = frozenset(PERSONAL + name for name in network.parameter_names)
        recipe = super().recipe(network, version)
        return replace(recipe, beside=names, proximal_beside=self.closeness)

    def brief(self, network: Network, state: ServerState, client: int, held: int) -> Brief:
        """What the personal model is before the client's first round."""
        first = {PERSONAL + name: state.weights[name] for name in network.parameter_names}
        return replace(
            super().brief(network, state, client, held), start={**state.weights, **first}
        )

    def price(self, network: Network, client: int, version: int) -> Price:
        """One model crosses, each way; two are trained."""
        return replace(super().price(network, client, version), work=2.0)

    def loss(self, parameters: Parameters, batch: Minibatch) -> Tensor:
        """F(w) + F(v), which meet in no term; that v stays near w^t is in the recipe."""
        v = {
            name.removeprefix(PERSONAL): parameters[name] for name in parameters if PERSONAL in name
        }
        w = {name: parameters[name] for name in v}
        losses = [batch.mean_loss(batch.forward(one, batch.inputs)) for one in (w, v)]
        return losses[0] + losses[1]

    def served(self, state: ServerState, client: int, memory: Memory) -> list[Parameters]:
        """The client's own model, once it has one."""
        own = {name.removeprefix(PERSONAL): tensor for name, tensor in memory.private.items()}
        return [{**state.weights, **own}]
