"""pFedMe: clients share a model, and personalise by minimising near it (Moreau envelopes).

Dinh, Tran, Nguyen: Personalized Federated Learning with Moreau Envelopes, NeurIPS 2020,
arXiv 2006.08848.

    w^t          the server's model                                `ServerState.weights`
    w_{i,r}      client i's local model, R local rounds            `parameters`, `local.steps`
    theta~_i     its personal model for a mini-batch and w_{i,r}   `parameters["personal/..."]`
    f~_i         mean loss of a mini-batch                         `Minibatch.mean_loss`
    lambda       how near theta stays to w                         `closeness`
    K            steps of the minimisation that gives theta~       `personal_steps`
                 ... and their size                                `personal_rate`
    eta          step size of w_{i,r}                              `local.learning_rate`
    beta         of the server's step                              `beta`

Algorithm 1. A local round draws a mini-batch, finds theta~ by K steps of gradient descent on
f~_i(theta) + lambda / 2 ||theta - w_{i,r}||^2 (line 7), and sets "w_{i,r+1} <- w_{i,r} - eta lambda
(w_{i,r} - theta~)" (line 8), a step along the gradient in w of a term of `loss`. The server sets "w
<- (1 - beta) w + beta mean_i w_{i,R}". A client is served its last theta~. lambda 15, K 5, beta 1
and theta's step 0.1 are what the published code has for MNIST and its convex model
(github.com/CharlieDinh/pFedMe, README; R is 20 there, eta 0.005; 0.09 for its DNN, and beta 2 where
it is tuned). Line numbers were not checked with the paper.

Departures from the paper: 1. theta's descent begins at w_{i,r} in each local round, while its code
continues from the last theta~; 2. clients that are not selected do not train, while in the paper
all of them train and some of them send.

Known limits: models with BatchNorm are refused, because there is only one set of running
statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from simfl.algorithms.base import Algorithm, ServerState
from simfl.algorithms.ditto import PERSONAL
from simfl.algorithms.steps import step_along
from simfl.learning.evaluate import Evaluator
from simfl.learning.job import Brief, Memory, Price, Recipe, Update
from simfl.learning.minibatch import Minibatch
from simfl.learning.network import Network
from simfl.learning.parameters import Parameters, squared_distance


@dataclass(frozen=True)
class PFedMe(Algorithm):
    """Personalised federated learning with Moreau envelopes."""

    name: ClassVar[str] = "pfedme"
    paper: ClassVar[str] = "arXiv 2006.08848"
    personal: ClassVar[bool] = True

    closeness: Annotated[float, "> 0", "lambda, weight of the distance of theta to w"] = 15.0
    personal_steps: Annotated[int, ">= 1", "K, steps of theta per mini-batch"] = 5
    personal_rate: Annotated[float, "> 0", "step size of theta"] = 0.1
    beta: Annotated[float, "> 0", "the server's step, as a multiple of the mean change"] = 1.0

    def __post_init__(self) -> None:
        local = self.local
        if local.optimizer != "sgd" or local.momentum or local.weight_decay:
            raise ValueError(
                "local: w takes plain steps towards theta; accepted: optimizer sgd, momentum 0,"
                " weight_decay 0"
            )
        if local.learning_rate_decay != 1.0:
            raise ValueError("local.learning_rate_decay: eta is one for all; accepted: 1")

    def check_network(self, network: Network) -> None:
        """Refuses BatchNorm: there is one set of running statistics for two models."""
        if network.normalisation:
            raise ValueError(
                "its two models cannot share BatchNorm's running statistics; accepted: a model"
                " without BatchNorm"
            )

    def recipe(self, network: Network, version: int) -> Recipe:
        """Keeps theta~ beside the model."""
        names = frozenset(PERSONAL + name for name in network.trainable_names)
        recipe = super().recipe(network, version)
        return replace(recipe, trainable=network.trainable_names, beside=names)

    def brief(self, network: Network, state: ServerState, client: int, held: int) -> Brief:
        """Sets theta~ before the client's first round: the server's model."""
        first = {PERSONAL + name: state.weights[name] for name in network.trainable_names}
        return replace(
            super().brief(network, state, client, held), start={**state.weights, **first}
        )

    def price(self, network: Network, client: int, version: int) -> Price:
        """One model is sent in each direction; each mini-batch is used K times."""
        return replace(super().price(network, client, version), work=float(self.personal_steps))

    def loss(self, parameters: Parameters, batch: Minibatch) -> Tensor:
        """lambda / 2 ||w - theta~||^2, and a term that moves the kept model to the last theta~."""
        kept = {
            name.removeprefix(PERSONAL): parameters[name] for name in parameters if PERSONAL in name
        }
        model = {name: one for name, one in parameters.items() if PERSONAL not in name}
        theta = batch.descended(  # line 7
            model,
            kept.keys(),
            steps=self.personal_steps,
            rate=self.personal_rate,
            pull=self.closeness,
        )
        w = {name: model[name] for name in kept}
        moved: Tensor = self.closeness / 2 * squared_distance(w, theta)
        last = batch.steps.eq(batch.step + 1)
        if not bool(last.any()):
            return moved
        # A step of eta along (kept - theta) / eta ends in theta.
        taken = squared_distance(kept, theta) / (2 * self.local.learning_rate)
        return moved + torch.where(last, taken, 0.0)

    def aggregate(
        self, state: ServerState, updates: Sequence[Update], evaluator: Evaluator
    ) -> ServerState:
        """(1 - beta) w + beta mean w_{i,R}: beta times the mean change."""
        coefficients = [self.beta / len(updates)] * len(updates)
        return replace(state, weights=step_along(state, updates, coefficients))

    def served(self, state: ServerState, client: int, memory: Memory) -> list[Parameters]:
        """The client's personal model, once it has one."""
        own = {name.removeprefix(PERSONAL): tensor for name, tensor in memory.private.items()}
        return [{**state.weights, **own}]
