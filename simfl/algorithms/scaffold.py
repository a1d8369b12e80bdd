"""SCAFFOLD: control variates correct every local step for client drift.

Karimireddy, Kale, Mohri, Reddi, Stich, Suresh: SCAFFOLD: Stochastic Controlled Averaging for
Federated Learning, ICML 2020, arXiv 1910.06378.

    x             the server's model                              `ServerState.weights`
    y_i           client i's model after K local steps            `Update.payload`
    c, c_i        control variates, one tensor per parameter      `memory["c"]`, `memory["c_i"]`
    eta_l, K      local step size, local steps                    `local`, `Update.steps`
    eta_g         the server's step size, 1 in the experiments    `server_learning_rate`
    N, S          all clients, those of a round                   `memory["c_i"]`, updates

Algorithm 1 with option II for c_i+ (line 12): the mean of the gradients that a client computes
anyway. Comments give its line numbers, from memory; they were not checked with the paper. The c_i
stay with the clients: only the messages in `price` cross the link.

Departures from the paper: running statistics of BatchNorm have no gradient and are averaged.

Known limits: option I, which takes one more gradient at x, is not implemented. Codecs only size
messages, because half of each is a control variate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import torch

from simfl.algorithms.base import Algorithm, ClientFacts, ServerState, Trait, Unmodelled
from simfl.learning.evaluate import Evaluator
from simfl.learning.job import Brief, Price, Update
from simfl.learning.network import Network
from simfl.learning.parameters import add
from simfl.learning.sums import weighted_sum


@dataclass(frozen=True)
class Scaffold(Algorithm):
    """Stochastic controlled averaging."""

    name: ClassVar[str] = "scaffold"
    paper: ClassVar[str] = "arXiv 1910.06378"
    refusals: ClassVar[Mapping[Trait, str]] = {
        "hierarchical": "the control variate c belongs to a single server",
        "takes_stale_updates": "c_i is updated with the c of its own round",
    }
    uncoded: ClassVar[Mapping[Unmodelled, str]] = {
        "downlink": "half of the message is the control variate c",
        "uplink": "half of the message is the change of c_i",
    }

    server_learning_rate: Annotated[float, "> 0", "eta_g, the server's step"] = 1.0

    def __post_init__(self) -> None:
        if self.local.optimizer != "sgd" or self.local.momentum or self.local.weight_decay:
            raise ValueError(
                "local: option II takes the mean gradient from plain SGD's steps; accepted:"
                " optimizer sgd, momentum 0, weight_decay 0"
            )

    def start(
        self, network: Network, clients: Mapping[int, ClientFacts], evaluator: Evaluator, seed: int
    ) -> ServerState:
        """All control variates are zero."""
        state = super().start(network, clients, evaluator, seed)
        zero = {name: torch.zeros_like(state.weights[name]) for name in network.trainable_names}
        return replace(state, memory={"c": zero, "c_i": dict.fromkeys(clients, zero)})

    def brief(self, network: Network, state: ServerState, client: int, held: int) -> Brief:
        """y_i <- y_i - eta_l (g_i(y_i) - c_i + c): c - c_i corrects every step (line 10)."""
        c, c_i = state.memory["c"], state.memory["c_i"][client]
        return replace(
            super().brief(network, state, client, held), correction=add(c, c_i, scale=-1.0)
        )

    def price(self, network: Network, client: int, version: int) -> Price:
        """Down (x, c), up (Delta y_i, Delta c_i): two models each way (lines 5 and 13)."""
        both = network.size_bytes + network.size_of(network.trainable_names)
        return Price(down_bytes=both, up_bytes=both)

    def aggregate(
        self, state: ServerState, updates: Sequence[Update], evaluator: Evaluator
    ) -> ServerState:
        """x + eta_g / |S| sum Delta y_i, and c + 1/N sum Delta c_i (lines 16 and 17)."""
        c, c_i = state.memory["c"], dict(state.memory["c_i"])
        changes = []
        for update in updates:
            K_eta = update.steps * update.brief.recipe.local.learning_rate
            delta_y = update.delta
            # line 12, option II: c_i+ - c_i = -c + (x - y_i) / (K eta_l)
            changes.append({name: -c[name] - delta_y[name] / K_eta for name in c})
            c_i[update.client] = add(c_i[update.client], changes[-1])  # line 14
        share = 1 / len(updates)
        mean = weighted_sum([update.payload for update in updates], [share] * len(updates))
        delta_x = {name: mean[name] - state.weights[name] for name in c}
        return replace(
            state,
            weights=add({**state.weights, **mean}, delta_x, scale=self.server_learning_rate - 1.0),
            memory={"c": add(c, weighted_sum(changes, [1 / len(c_i)] * len(changes))), "c_i": c_i},
        )
