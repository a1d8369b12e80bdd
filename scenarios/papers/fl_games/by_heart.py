"""FedSGD, FedAvg and FedProx until they know their training data by heart.

The paper's FedProx and FedBN have 99.56 and 99.75 % of training accuracy, a fourth of the labels
being wrong; these end as soon as they have as much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from simfl.algorithms.base import Algorithm, ClientFacts, ServerState, Standing
from simfl.algorithms.equilibrium import Equilibrium
from simfl.algorithms.fedavg import FedAvg
from simfl.algorithms.fedprox import FedProx
from simfl.algorithms.fedsgd import FedSGD
from simfl.learning.evaluate import Evaluator
from simfl.learning.network import Network


@dataclass(frozen=True)
class _ByHeart(Algorithm):
    """An end by training accuracy, for an algorithm with one model for all."""

    stands: ClassVar[bool] = True

    enough: Annotated[float, "> 0", "<= 1", "training accuracy that ends the run"] = 0.9956
    examples: Annotated[int, ">= 1", "of each client, a fixed random choice, to measure on"] = 5000

    def start(
        self, network: Network, clients: Mapping[int, ClientFacts], evaluator: Evaluator, seed: int
    ) -> ServerState:
        """The algorithm's own, and how much data each client has."""
        state = super().start(network, clients, evaluator, seed)
        sizes = {client: facts.num_examples for client, facts in clients.items()}
        return replace(state, memory={**state.memory, "sizes": sizes})

    def standing(self, state: ServerState, evaluator: Evaluator) -> Standing:
        """Over once the model has learned enough of the clients' data."""
        measure, sizes = Equilibrium(examples=self.examples), state.memory["sizes"]
        found = measure.standing([state.weights], sizes, evaluator, warm=False)
        if found.accuracy < self.enough:
            return found
        return replace(found, over=f"learned: training accuracy {found.accuracy:.4f}")


@dataclass(frozen=True)
class FedSGDByHeart(_ByHeart, FedSGD):
    """FedSGD until then."""


@dataclass(frozen=True)
class FedAvgByHeart(_ByHeart, FedAvg):
    """FedAvg until then."""


@dataclass(frozen=True)
class FedProxByHeart(_ByHeart, FedProx):
    """FedProx until then."""
