"""AFL: the model that is best on the worst mixture of the clients' data.

Mohri, Sivek, Suresh: Agnostic Federated Learning, ICML 2019, arXiv 1902.00146.

    L_k(theta)   mean loss on client k's whole data      `Update.measures["loss_before"]`
    lambda       mixture of clients, on the simplex      `ServerState.memory["mixture"]`
    eta_lambda   learning rate of the mixture            `mixture_rate`
    S, n         participants, all clients               `updates`, entries of the mixture

"min_theta max_lambda sum_k lambda_k L_k(theta)" by stochastic-AFL: theta descends along
(n / |S|) sum_{k in S} lambda_k grad L_k, lambda ascends along the losses and is projected back
onto the simplex. Both are `aggregate`.

Departures from the paper: 1. clients train as `local` says instead of taking one gradient step, and
lambda weights their changes; with one step this is the paper's algorithm; 2. participants are
sampled by client, which the factor n / |S| makes unbiased; the paper samples clients by lambda or
uniformly; 3. the result is the last iterate; the paper's guarantee is for the mean of all iterates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from simfl.algorithms.base import Algorithm, ClientFacts, ServerState, Trait
from simfl.algorithms.measured import (
    loss_report,
    losses_before,
    measured_price,
    measured_recipe,
)
from simfl.algorithms.steps import step_along
from simfl.common.arrays import FloatArray
from simfl.learning.evaluate import Evaluator
from simfl.learning.job import Price, Recipe, Update
from simfl.learning.network import Network


@dataclass(frozen=True)
class Afl(Algorithm):
    """Agnostic federated learning: a learned mixture gives more weight to worse-off clients."""

    name: ClassVar[str] = "afl"
    paper: ClassVar[str] = "arXiv 1902.00146"
    refusals: ClassVar[Mapping[Trait, str]] = {
        "hierarchical": "lambda is one distribution over all clients, not one per edge server"
    }

    mixture_rate: Annotated[float, "> 0", "learning rate of the mixture (eta_lambda)"] = 0.1

    def start(
        self, network: Network, clients: Mapping[int, ClientFacts], evaluator: Evaluator, seed: int
    ) -> ServerState:
        """Fresh weights and the uniform mixture."""
        mixture = {client: 1 / len(clients) for client in clients}
        state = super().start(network, clients, evaluator, seed)
        return replace(state, memory={"mixture": mixture})

    def recipe(self, network: Network, version: int) -> Recipe:
        """Measure L_k at theta, then train."""
        return measured_recipe(network, self.local.at(version))

    def price(self, network: Network, client: int, version: int) -> Price:
        """theta down; the change and L_k up."""
        return measured_price(network)

    def aggregate(
        self, state: ServerState, updates: Sequence[Update], evaluator: Evaluator
    ) -> ServerState:
        """theta + (n / |S|) sum_k lambda_k Delta_k, then the mixture's own step."""
        mixture = dict(state.memory["mixture"])
        scale = len(mixture) / len(updates)
        weights = step_along(state, updates, scale * self._shares(state, updates))
        for update, loss in zip(updates, losses_before(updates).tolist(), strict=True):
            mixture[update.client] += self.mixture_rate * scale * loss
        projected = onto_simplex(np.array(list(mixture.values()))).tolist()
        mixture = dict(zip(mixture, projected, strict=True))
        return replace(state, weights=weights, memory={"mixture": mixture})

    def merge(
        self, state: ServerState, lower: Sequence[ServerState], shares: Sequence[float]
    ) -> ServerState:
        """Mixtures are mixed like the weights."""
        members, own = [state, *lower], 1.0 - sum(shares)
        mixture = {
            client: sum(
                share * member.memory["mixture"][client]
                for share, member in zip([own, *shares], members, strict=True)
            )
            for client in state.memory["mixture"]
        }
        return replace(super().merge(state, lower, shares), memory={"mixture": mixture})

    def report(self, state: ServerState, updates: Sequence[Update]) -> dict[str, Any]:
        """`value` is the largest loss; per client its loss and its share of the mixture."""
        return loss_report(updates, mixture=self._shares(state, updates))

    def _shares(self, state: ServerState, updates: Sequence[Update]) -> FloatArray:
        """lambda_k of the participants."""
        return np.array([state.memory["mixture"][update.client] for update in updates])


def onto_simplex(values: FloatArray) -> FloatArray:
    """The nearest point with entries >= 0 that sum to 1.

    Source: Duchi, Shalev-Shwartz, Singer, Chandra, "Efficient Projections onto the l1-Ball for
    Learning in High Dimensions", ICML 2008, figure 1.
    """
    # A shift changes nothing, but beside huge values the 1 would be lost in rounding.
    values = values - values.max()
    falling = np.sort(values)[::-1]
    excess = np.cumsum(falling) - 1.0
    kept = np.flatnonzero(falling * np.arange(1, values.size + 1) > excess)[-1]
    projected: FloatArray = np.maximum(values - excess[kept] / (kept + 1), 0.0)
    return projected
