"""FedAvg: local SGD, then the mean of the client models weighted by data size.

McMahan, Moore, Ramage, Hampson, Aguera y Arcas: Communication-Efficient Learning of Deep Networks
from Decentralized Data, AISTATS 2017, arXiv 1602.05629.

    E, B, eta   local epochs, batch size, learning rate   `local`
    n_k, n      examples of client k, of all participants  `Update.num_examples`
    w_t         global weights                             `ServerState.weights`
    eta_g       server learning rate, 1 in the paper       `server_learning_rate`

Algorithm 1: ClientUpdate is the trainer's loop over `loss`; the server's line
"w_{t+1} <- sum_k (n_k / n) w^k_{t+1}" is `aggregate`. All of it is the base class's behaviour.

Departures from the paper: `weights: uniform` is the plain mean of the participants' models, the
baseline for fairness algorithms that weight all clients equally. With edge servers it is the mean
within each of them, and the cloud weights them by data size. With a `server_learning_rate` the
server moves to w_t + eta_g (mean - w_t) (Reddi et al., arXiv 2003.00295, with plain SGD as the
server's optimizer); running statistics of BatchNorm have no gradient and are averaged.

Known limits: a protocol's own rate or share multiplies `server_learning_rate` (`buffered`, and the
staleness rule of the asynchronous ones); under edge servers each one takes the step over its own
members, which with one edge round by data size is the step of a flat server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from simfl.algorithms.base import Algorithm, ServerState
from simfl.learning.evaluate import Evaluator
from simfl.learning.job import Recipe, Update
from simfl.learning.network import Network
from simfl.learning.sums import weighted_mean, weighted_sum


@dataclass(frozen=True)
class FedAvg(Algorithm):
    """Federated averaging."""

    name: ClassVar[str] = "fedavg"
    paper: ClassVar[str] = "arXiv 1602.05629"

    weights: Annotated[
        Literal["examples", "uniform"], "weights of the participants: their data size, or all equal"
    ] = "examples"

    server_learning_rate: Annotated[
        float, "> 0", "eta_g: the server's step, as a multiple of the mean change of the weights"
    ] = 1.0

    def recipe(self, network: Network, version: int) -> Recipe:
        """Plain local training; for a server step the server must know what was trained."""
        recipe = super().recipe(network, version)
        if self.server_learning_rate == 1.0:
            return recipe
        return replace(recipe, trainable=network.trainable_names)

    def aggregate(
        self, state: ServerState, updates: Sequence[Update], evaluator: Evaluator
    ) -> ServerState:
        """Algorithm 1, server: the weighted mean of the clients' models, or a step along it."""
        sizes = [one.num_examples if self.weights == "examples" else 1.0 for one in updates]
        mean = weighted_mean([update.payload for update in updates], sizes)
        if self.server_learning_rate != 1.0:
            trained = updates[0].brief.recipe.trainable or frozenset()
            ends = [{name: one[name] for name in trained} for one in (state.weights, mean)]
            rate = self.server_learning_rate
            mean = {**mean, **weighted_sum(ends, [1.0 - rate, rate])}
        return replace(state, weights={**state.weights, **mean})
