"""SCAFFOLD (Karimireddy et al., ICML 2020, arXiv 1910.06378): every local step is corrected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import torch

from simfl.plugins import (
    Algorithm,
    Brief,
    ClientFacts,
    Evaluator,
    Network,
    Price,
    ServerState,
    Update,
    add,
    weighted_sum,
)


@dataclass(frozen=True)
class Scaffold(Algorithm):
    """Clients step along their gradient + c - c_i; c_i by option II of the paper's Algorithm 1.

    The state's memory holds c, the server's control variate, and c_i of every client that was
    heard of. The c_i lie with the clients: what crosses the link is what `price` says.
    """

    server_rate: Annotated[float, "> 0", "eta_g, the server's step"] = 1.0

    paper: ClassVar[str] = "arXiv 1910.06378"
    refusals: ClassVar = {
        "hierarchical": "the control variate c belongs to a single server",
        "takes_stale_updates": "c_i is updated with the c of its own round",
    }
    uncoded: ClassVar = {
        "downlink": "half of the message is the control variate c",
        "uplink": "half of the message is the change of c_i",
    }

    def __post_init__(self) -> None:
        local = self.local
        if local.optimizer != "sgd" or local.momentum or local.weight_decay:
            raise ValueError("local: option II takes the mean gradient from plain SGD's steps")

    def start(
        self, network: Network, clients: Mapping[int, ClientFacts], evaluator: Evaluator, seed: int
    ) -> ServerState:
        """All control variates are zero."""
        state = super().start(network, clients, evaluator, seed)
        zero = {name: torch.zeros_like(state.weights[name]) for name in network.trainable_names}
        return replace(state, memory={"c": zero, "c_i": dict.fromkeys(clients, zero)})

    def brief(self, network: Network, state: ServerState, client: int, held: int) -> Brief:
        """c - c_i is added to the gradient of every local step."""
        c, c_i = state.memory["c"], state.memory["c_i"][client]
        return replace(
            super().brief(network, state, client, held), correction=add(c, c_i, scale=-1.0)
        )

    def price(self, network: Network, client: int, version: int) -> Price:
        """Down (x, c), up (y_i - x, c_i+ - c_i): two models each way."""
        both = network.size_bytes + network.size_of(network.trainable_names)
        return Price(down_bytes=both, up_bytes=both)

    def aggregate(
        self, state: ServerState, updates: Sequence[Update], evaluator: Evaluator
    ) -> ServerState:
        """x + eta_g mean(y_i - x), and c + (1/N) sum (c_i+ - c_i)."""
        c, c_i = state.memory["c"], dict(state.memory["c_i"])
        changes = []
        for update in updates:
            taken = update.steps * update.brief.recipe.local.learning_rate
            delta = update.delta
            changes.append({name: -c[name] - delta[name] / taken for name in c})
            c_i[update.client] = add(c_i[update.client], changes[-1])
        share = 1 / len(updates)
        mean = weighted_sum([update.payload for update in updates], [share] * len(updates))
        step = {name: mean[name] - state.weights[name] for name in c}
        return replace(
            state,
            weights=add({**state.weights, **mean}, step, scale=self.server_rate - 1.0),
            memory={"c": add(c, weighted_sum(changes, [1 / len(c_i)] * len(changes))), "c_i": c_i},
        )
