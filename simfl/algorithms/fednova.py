"""FedNova: client changes are normalised by their number of local steps.

Wang, Liu, Liang, Joshi, Poor: Tackling the Objective Inconsistency Problem in Heterogeneous
Federated Optimization, NeurIPS 2020, arXiv 2007.07481.

    p_i           client i's share of the participants' examples    `p`
    eta, tau_i    local step size, local steps                      `local`, `Update.steps`
                  (the paper's 2 to 5 epochs: `local: {epochs: 5, partial: {least: 0.2}}`)
    rho           local momentum                                    `local.momentum`
    mu            weight of a proximal term, 0 is none              `mu`
    a_i           weights of the local gradients, tau_i numbers     summed up by `norm_of_a`
    d_i           normalised gradient, G_i a_i / ||a_i||_1          -delta / (eta ||a_i||_1)
    tau_eff       steps that the server takes along their mean      `tau_eff`

"x <- x - tau_eff sum_i p_i eta d_i" is `aggregate`. a_i is (1, ..., 1) for plain SGD, and with
momentum or a proximal term as in the paper; it is computed from the optimizer's recursion, which
also covers both together. Both together may oscillate and give negative entries, which the paper's
a_i do not have: then their sum is used. tau_eff is sum_i p_i ||a_i||_1, and sum_i p_i tau_i with a
proximal term, as in the paper's published code: with equal a_i and mu = 0, FedNova is FedAvg.

Departures from the paper: 1. p_i are over the participants of a round, as in its code, where its
Eq. 2 has them over all clients; 2. running statistics of BatchNorm are averaged.

Known limits: Adam as the local optimizer, and momentum that is kept between rounds, are refused,
because their a_i depend on more than the number of steps; there is no server momentum. Every edge
server normalises its own clients' changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, ClassVar

from simfl.algorithms.base import Algorithm, ServerState
from simfl.algorithms.steps import step_along
from simfl.learning.evaluate import Evaluator
from simfl.learning.job import Price, Recipe, Update
from simfl.learning.network import Network
from simfl.learning.parameters import BYTES_PER_VALUE
from simfl.learning.sums import shares


@dataclass(frozen=True)
class FedNova(Algorithm):
    """Federated normalised averaging."""

    name: ClassVar[str] = "fednova"
    paper: ClassVar[str] = "arXiv 2007.07481"

    mu: Annotated[float, ">= 0", "weight of a proximal term, as in FedProx; 0: none"] = 0.0

    def __post_init__(self) -> None:
        if self.local.optimizer != "sgd":
            raise ValueError(
                "local.optimizer: fednova can normalise only SGD's gradients; accepted: sgd"
            )
        if self.local.momentum and self.local.keep_optimizer:
            raise ValueError(
                "local.keep_optimizer: fednova counts the gradients of one round only; accepted:"
                " false"
            )
        most = 1 / self.local.learning_rate
        if self.mu > most:
            raise ValueError(
                f"mu: found {self.mu:g}, with which a step overshoots its start; accepted: at most"
                f" 1 / local.learning_rate, {most:g}"
            )

    def recipe(self, network: Network, version: int) -> Recipe:
        """Plain training, with a proximal term if mu > 0."""
        recipe = super().recipe(network, version)
        return replace(recipe, trainable=network.trainable_names, proximal=self.mu)

    def price(self, network: Network, client: int, version: int) -> Price:
        """x down; d_i and its number of steps up: 4 P + 4 bytes."""
        size = network.size_bytes
        return Price(down_bytes=size, up_bytes=size + BYTES_PER_VALUE)

    def aggregate(
        self, state: ServerState, updates: Sequence[Update], evaluator: Evaluator
    ) -> ServerState:
        """x - tau_eff sum_i p_i eta d_i, where -eta d_i is the change over ||a_i||_1."""
        p = shares(update.num_examples for update in updates)
        a = [self._norm(update) for update in updates]
        counted = [float(update.steps) for update in updates] if self.mu else a
        tau_eff = sum(p_i * tau_i for p_i, tau_i in zip(p, counted, strict=True))
        coefficients = [tau_eff * p_i / a_i for p_i, a_i in zip(p, a, strict=True)]
        return replace(state, weights=step_along(state, updates, coefficients))

    def _norm(self, update: Update) -> float:
        """||a_i||_1 of an update."""
        pull = update.brief.recipe.local.learning_rate * self.mu
        return norm_of_a(update.steps, self.local.momentum, pull)


@lru_cache(maxsize=4096)
def norm_of_a(steps: int, momentum: float, pull: float) -> float:
    """How far a constant gradient of 1 moves a parameter, as a multiple of the step size.

    `pull` is eta mu, the share of the distance that the proximal term undoes in each step.
    """
    way = velocity = 0.0
    for _ in range(steps):
        velocity = momentum * velocity + 1.0 - pull * way
        way += velocity
    return way
