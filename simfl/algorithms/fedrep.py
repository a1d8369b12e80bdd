"""FedRep: clients share a representation, and each has its own head.

Collins, Hassani, Mokhtari, Shakkottai: Exploiting Shared Representations for Personalized Federated
Learning, ICML 2021, arXiv 2102.07078.

    phi^t        the representation: all tensors but the head's     `ServerState.weights`
    h_i          client i's head                                    `Memory.private`, `head`
    f_i          mean loss on client i's data                       `Minibatch.mean_loss`
    tau_h        passes over the data for the head                  `head_epochs`
    alpha        step size of both                                  `local.learning_rate`

Algorithm 1. A client takes over phi^t, trains its head with phi fixed for `head_epochs`, then phi
with the head fixed for `local.epochs`, and sends phi alone; the server's "phi <- mean of the phi_i"
is `aggregate`. `loss` detaches the parameters that a step does not train. A client is served the
server's representation with its own head. The paper trains the head for ten epochs, then the
representation for one or five, depending on the data set (which has which was not checked).

Departures from the paper: 1. plain SGD, while its experiments use momentum (0.5), which would move
fixed parameters; 2. the paper's last step, training the head on the final phi before a client is
evaluated, is left out: a head is as old as the client's last round; 3. running statistics of
BatchNorm move in both phases and are averaged.

Known limits: the work of the head is taken as 2 operations per weight and example, which holds for
heads that are applied once per example, such as linear ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from simfl.algorithms.base import Algorithm, ServerState
from simfl.learning.evaluate import Evaluator
from simfl.learning.job import Memory, Price, Recipe, Update
from simfl.learning.minibatch import Minibatch
from simfl.learning.network import Network
from simfl.learning.parameters import Parameters, per_job_view
from simfl.learning.sums import weighted_mean


@dataclass(frozen=True)
class FedRep(Algorithm):
    """Federated representation learning."""

    name: ClassVar[str] = "fedrep"
    whole_work: ClassVar[str] = (
        "its epochs are those of the head and then of the body, which a part would leave out"
    )
    paper: ClassVar[str] = "arXiv 2102.07078"
    personal: ClassVar[bool] = True

    head_epochs: Annotated[
        int, ">= 1", "tau_h, epochs of the head before the representation trains"
    ] = 10
    head: Annotated[str | None, "the module that stays with the clients; null: the last one"] = None

    def __post_init__(self) -> None:
        local = self.local
        if local.counts_steps():
            raise ValueError("local: fedrep trains in whole epochs; accepted: epochs")
        if local.optimizer != "sgd" or local.momentum or local.weight_decay:
            raise ValueError(
                "local: momentum, weight decay and Adam would move fixed parameters; accepted:"
                " optimizer sgd, momentum 0, weight_decay 0"
            )

    @property
    def _epochs(self) -> int:
        """Epochs of the representation."""
        return self.local.epochs or 1

    def _head(self, names: Sequence[str]) -> frozenset[str]:
        """The head's parameters, in the model's order."""
        return _of_module(self.head, tuple(names))

    def check_network(self, network: Network) -> None:
        """Refuses a head that the model does not have, or that is the whole model."""
        names = self._head(network.parameter_names)
        if not names or names >= network.trainable_names:
            modules = dict.fromkeys(one.rpartition(".")[0] for one in network.parameter_names)
            raise ValueError(
                f"head: found {self.head!r}, accepted: a module with parameters, which leaves"
                f" others to be shared, of {', '.join(modules)}"
            )

    def recipe(self, network: Network, version: int) -> Recipe:
        """The epochs of both phases; the head is private."""
        local = replace(self.local.at(version), epochs=self.head_epochs + self._epochs)
        return Recipe(local, private=self._head(network.parameter_names))

    def price(self, network: Network, client: int, version: int) -> Price:
        """phi in each direction. Forward passes are whole; backward passes stop where they can.

        Of three units of work per step, the head's steps take 1 + s (its own gradients only), the
        representation's 3 - s (all but those), where s is the head's share.
        """
        names = self._head(network.parameter_names)
        size = network.size_bytes - network.size_of(names)
        weights = [network.template[name].numel() for name in names]
        s = min(1.0, 2.0 * sum(weights) / network.forward_flops)
        units = self.head_epochs * (1 + s) + self._epochs * (3 - s)
        work = units / (3 * (self.head_epochs + self._epochs))
        return Price(down_bytes=size, up_bytes=size, work=work)

    def tier_price(self, network: Network, version: int) -> Price:
        """phi between the tiers, too."""
        return replace(self.price(network, 0, version), work=0.0)

    def loss(self, parameters: Parameters, batch: Minibatch) -> Tensor:
        """f_i(phi, h_i): trains h_i in a job's first epochs, then phi."""
        passes = self.head_epochs + self._epochs
        first = batch.step * passes < self.head_epochs * batch.steps
        head, every, some = self._head(tuple(parameters)), bool(first.all()), bool(first.any())
        model = {}
        for name, tensor in parameters.items():
            if every or not some:  # the usual case: all jobs are in one phase
                model[name] = tensor if every == (name in head) else tensor.detach()
            else:
                trains = per_job_view(first if name in head else ~first, tensor)
                model[name] = torch.where(trains, tensor, tensor.detach())
        return batch.mean_loss(batch.forward(model, batch.inputs))

    def aggregate(
        self, state: ServerState, updates: Sequence[Update], evaluator: Evaluator
    ) -> ServerState:
        """phi is the plain mean of the clients' phi_i."""
        mean = weighted_mean([update.payload for update in updates], [1.0] * len(updates))
        return replace(state, weights={**state.weights, **mean})

    def served(self, state: ServerState, client: int, memory: Memory) -> list[Parameters]:
        """The server's representation with the client's own head, once it has one."""
        return [{**state.weights, **memory.private}]


@lru_cache(maxsize=64)
def _of_module(module: str | None, names: tuple[str, ...]) -> frozenset[str]:
    """A module's parameters, in the model's order; None: the last module's."""
    prefix = names[-1].rpartition(".")[0] if module is None else module
    return frozenset(name for name in names if name.startswith(f"{prefix}."))
