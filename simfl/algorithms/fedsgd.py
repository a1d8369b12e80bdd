"""FedSGD: one gradient per client and round, one server step.

The baseline of McMahan et al. 2017, arXiv 1602.05629, section 2.

    g_k      mean gradient of client k at w_t       `Update.payload`
    n_k, n   examples of client k, of participants  `Update.num_examples`
    eta      learning rate of the server's version  `local.learning_rate`

"w_{t+1} <- w_t - eta sum_k (n_k / n) g_k" is `aggregate`. With `local.steps` or `local.share` the
gradient is taken over that many mini-batches instead of the whole shard.

Departures from the paper: none by default; `server_optimizer: adam` takes Adam's step instead.

Known limits: every edge server has its own Adam moments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from simfl.algorithms.base import Algorithm, ServerState
from simfl.learning.evaluate import Evaluator
from simfl.learning.job import Recipe, Update
from simfl.learning.network import Network
from simfl.learning.parameters import add
from simfl.learning.server_adam import NO_MOMENTS, adam_step
from simfl.learning.sums import weighted_mean


@dataclass(frozen=True)
class FedSGD(Algorithm):
    """Federated stochastic gradient descent."""

    name: ClassVar[str] = "fedsgd"
    whole_work: ClassVar[str] = "it computes one gradient over all data"
    paper: ClassVar[str] = "arXiv 1602.05629"

    server_optimizer: Annotated[
        Literal["sgd", "adam"], "the server's step along the mean gradient"
    ] = "sgd"

    def __post_init__(self) -> None:
        if self.local.optimizer != "sgd":
            raise ValueError("local.optimizer: fedsgd takes one plain server step; accepted: sgd")
        if self.local.momentum:
            raise ValueError("local.momentum: fedsgd takes one plain server step; accepted: 0")
        if self.local.weight_decay:
            raise ValueError("local.weight_decay: fedsgd takes one plain server step; accepted: 0")
        if self.local.epochs not in (None, 1):
            raise ValueError(
                "local.epochs: fedsgd computes one gradient; accepted: 1, steps or share"
            )

    def recipe(self, network: Network, version: int) -> Recipe:
        """A gradient at the weights received."""
        return Recipe(self.local.at(version), kind="gradient")

    def aggregate(
        self, state: ServerState, updates: Sequence[Update], evaluator: Evaluator
    ) -> ServerState:
        """One step along the mean gradient, weighted by data size."""
        sizes = [update.num_examples for update in updates]
        gradient = weighted_mean([update.payload for update in updates], sizes)
        rate = self.local.at(state.version).learning_rate
        if self.server_optimizer == "adam":
            moments = state.memory.get("moments", NO_MOMENTS)
            weights, moments = adam_step(state.weights, gradient, moments, rate)
            memory = {**state.memory, "moments": moments}
            return replace(state, weights={**state.weights, **weights}, memory=memory)
        return replace(state, weights=add(state.weights, gradient, scale=-rate))

    def merge(
        self, state: ServerState, lower: Sequence[ServerState], shares: Sequence[float]
    ) -> ServerState:
        """Adam's moments are those after the step, whatever share of it the weights take."""
        memory = {**state.memory, **lower[-1].memory}
        return replace(super().merge(state, lower, shares), memory=memory)
