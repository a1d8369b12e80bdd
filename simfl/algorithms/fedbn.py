"""FedBN: FedAvg with BatchNorm layers that stay local to each client.

Li, Jiang, Zhang, Kamp, Dou: FedBN: Federated Learning on Non-IID Features via Local Batch
Normalization, ICLR 2021, arXiv 2102.07623.

    w_{0,k}^(l)   client k's tensors of layer l     `Update.payload`, or `Memory.private` for BN
    K             clients that take part            updates

Algorithm 1: "if layer l is not BatchNorm then w^(l) <- (1/K) sum_k w_k^(l)" is `aggregate`;
BatchNorm's weights, biases and running statistics, found by module type, are private: they stay
with the client between rounds and are never sent. A client is served the server's model with its
own BatchNorm.

Departures from the paper: an unseen client has no BatchNorm of its own, so the accuracy on the test
set is the mean over the clients' models, each with its own.

A model without BatchNorm makes this FedAvg with equal weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from simfl.algorithms.base import Algorithm, ServerState
from simfl.learning.evaluate import Evaluator
from simfl.learning.job import Memory, Price, Recipe, Update
from simfl.learning.network import Network
from simfl.learning.parameters import Parameters
from simfl.learning.sums import weighted_mean


@dataclass(frozen=True)
class FedBN(Algorithm):
    """Federated averaging with local batch normalisation."""

    name: ClassVar[str] = "fedbn"
    paper: ClassVar[str] = "arXiv 2102.07623"
    personal: ClassVar[bool] = True

    def recipe(self, network: Network, version: int) -> Recipe:
        """Plain training with private BatchNorm tensors."""
        return Recipe(self.local.at(version), private=network.normalisation)

    def price(self, network: Network, client: int, version: int) -> Price:
        """The model without BatchNorm, in each direction."""
        size = network.size_bytes - network.size_of(network.normalisation)
        return Price(down_bytes=size, up_bytes=size)

    def tier_price(self, network: Network, version: int) -> Price:
        """The same between the tiers."""
        return replace(self.price(network, 0, version), work=0.0)

    def aggregate(
        self, state: ServerState, updates: Sequence[Update], evaluator: Evaluator
    ) -> ServerState:
        """The plain mean of the tensors that clients send."""
        mean = weighted_mean([update.payload for update in updates], [1.0] * len(updates))
        return replace(state, weights={**state.weights, **mean})

    def served(self, state: ServerState, client: int, memory: Memory) -> list[Parameters]:
        """The server's model with the client's own BatchNorm as of its last finished job."""
        return [{**state.weights, **memory.private}]
