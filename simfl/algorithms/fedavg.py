"""FedAvg: local SGD, then the mean of the client models weighted by data size.

McMahan, Moore, Ramage, Hampson, Aguera y Arcas: Communication-Efficient Learning of Deep Networks
from Decentralized Data, AISTATS 2017, arXiv 1602.05629.

    E, B, eta   local epochs, batch size, learning rate   `local`
    n_k, n      examples of client k, of all participants  `Update.num_examples`
    w_t         global weights                             `ServerState.weights`

Algorithm 1: ClientUpdate is the trainer's loop over `loss`; the server's line
"w_{t+1} <- sum_k (n_k / n) w^k_{t+1}" is `aggregate`. All of it is the base class's behaviour.

Departures from the paper: `weights: uniform` is the plain mean of the participants' models, with
which fairness algorithms are compared that give every client the same weight. Under edge servers
it is the mean within each of them, and the cloud weighs them by data size.

Known limits: none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from simfl.algorithms.base import Algorithm, ServerState
from simfl.learning.evaluate import Evaluator
from simfl.learning.job import Update
from simfl.learning.sums import weighted_mean


@dataclass(frozen=True)
class FedAvg(Algorithm):
    """Federated averaging."""

    name: ClassVar[str] = "fedavg"
    paper: ClassVar[str] = "arXiv 1602.05629"

    weights: Annotated[
        Literal["examples", "uniform"], "of the participants: their data size, or all the same"
    ] = "examples"

    def aggregate(
        self, state: ServerState, updates: Sequence[Update], evaluator: Evaluator
    ) -> ServerState:
        """Algorithm 1, server: the weighted mean of the clients' models."""
        if self.weights == "examples":
            return super().aggregate(state, updates, evaluator)
        mean = weighted_mean([update.payload for update in updates], [1.0] * len(updates))
        return replace(state, weights={**state.weights, **mean})
