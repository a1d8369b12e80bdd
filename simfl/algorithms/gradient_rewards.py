"""The common base of CFFL, CGSV and FedAVE: clients keep models and are rewarded with gradients.

A client trains the model that it keeps; the server aggregates the clients' changes, and gives each
client the largest values of the aggregate, more of them for a better reputation. The models
physically lie with the clients; the server's memory holds them because their next briefs are made
from them, but only the rewards cross a link.

Memory: `models` per client; `owed`, the values of the reward that a client's next download holds
(-1: the whole model), and `since`, the first version with it; `reputation`; `known`, each client's
contribution, examples and classes; `statistics`, the names of the model's running statistics. The
first four belong to the client's own tier, `known` covers all clients.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor

from simfl.algorithms.base import Algorithm, ClientFacts, ServerState, Trait, Unmodelled
from simfl.algorithms.positions import message_bytes
from simfl.learning.evaluate import Evaluator
from simfl.learning.job import Brief, Memory, Price, Update
from simfl.learning.network import Network
from simfl.learning.parameters import BYTES_PER_VALUE, Parameters, add
from simfl.learning.sums import weighted_mean
from simfl.system.codecs.sparse import Positions

WHOLE = -1
"""In place of a number of values: the whole model is downloaded."""


@dataclass(frozen=True)
class Reward:
    """A client's reward for a round: the `change` of its model, sent as `values` values."""

    change: Parameters
    values: int


@dataclass(frozen=True)
class Round:
    """The outcome of a round: the server's step, and each client's reward."""

    step: Parameters
    rewards: Mapping[int, Reward]
    reputation: Mapping[int, float]


@dataclass(frozen=True)
class GradientRewards(Algorithm, ABC):
    """Base of algorithms that reward clients with parts of the aggregated gradient.

    `reward_by` "contribution" replaces reputations by each client's share of all contributions
    (test accuracy of standalone training), as in FedSAC's comparisons.
    """

    learned_price: ClassVar[bool] = True
    whole_work: ClassVar[str] = (
        "what a client's turn costs and brings is that of all of its local work"
    )
    personal: ClassVar[bool] = True
    min_updates: ClassVar[int] = 2
    refusals: ClassVar[Mapping[Trait, str]] = {
        "takes_stale_updates": (
            "it weights the updates of a round relative to one another, which would undo the"
            " share of a stale one"
        )
    }
    uncoded: ClassVar[Mapping[Unmodelled, str]] = {
        "downlink": "clients keep models of their own, and download rewards"
    }

    reputation_keys: ClassVar[tuple[str, ...]] = ("memory_share",)
    """Keys that decide nothing unless rewards follow reputations."""

    reward_by: Literal["contribution", "reputation"] = "contribution"
    positions: Annotated[Positions, "how a message encodes which values it holds"] = "index"

    @property
    def idle_keys(self) -> dict[str, str]:
        """Also the keys of reputations, if rewards do not follow them."""
        idle = super().idle_keys
        if self.reward_by == "contribution":
            reason = "rewards follow contributions (reward_by), not reputations"
            idle |= dict.fromkeys(self.reputation_keys, reason)
        return idle

    @property
    def needs_contributions(self) -> bool:
        """True if contributions decide the rewards."""
        return self.reward_by == "contribution"

    @abstractmethod
    def _round(
        self,
        state: ServerState,
        updates: Sequence[Update],
        changes: Sequence[Parameters],
        evaluator: Evaluator,
    ) -> Round:
        """The server's step and the clients' rewards; `changes` are those of the parameters."""

    @property
    def needs_classes(self) -> bool:
        """True: shares of contributions and of validation results need accuracies."""
        return self.needs_contributions or self.needs_validation

    def start(
        self, network: Network, clients: Mapping[int, ClientFacts], evaluator: Evaluator, seed: int
    ) -> ServerState:
        """All clients begin with the same model."""
        state = super().start(network, clients, evaluator, seed)
        memory = {
            "models": dict.fromkeys(clients, state.weights),
            "owed": dict.fromkeys(clients, WHOLE),
            "since": dict.fromkeys(clients, state.version),
            "reputation": {},
            "known": {client: _known(facts) for client, facts in clients.items()},
            "statistics": dict.fromkeys(network.buffer_names, True),
        }
        return replace(state, memory=memory)

    def brief(self, network: Network, state: ServerState, client: int, held: int) -> Brief:
        """The model that the client keeps; it downloads the reward that it is owed.

        Nothing, if it has received that already and its update was lost or came too late.
        """
        owed = state.memory["owed"][client]
        received = held >= state.memory["since"][client]
        values = sum(state.weights[name].numel() for name in network.trainable_names)
        rest = network.size_bytes - BYTES_PER_VALUE * values
        sparse = message_bytes(values, owed, self.positions) + rest
        price = self._turn(network, state, client)
        down_bytes = network.size_bytes if owed == WHOLE else sparse
        return Brief(
            start=state.memory["models"][client],
            recipe=self.recipe(network, state.version),
            price=replace(price, down_bytes=down_bytes if price.work and not received else 0),
        )

    def aggregate(
        self, state: ServerState, updates: Sequence[Update], evaluator: Evaluator
    ) -> ServerState:
        """The server takes its step, and each participant's model gets its reward.

        Running statistics are averaged and given to all participants.
        """
        network = evaluator.network
        names = [name for name in network.parameter_names if name in network.trainable_names]
        changes = [{name: update.delta[name] for name in names} for update in updates]
        result = self._round(state, updates, changes, evaluator)
        statistics = weighted_mean(
            [{n: t for n, t in one.payload.items() if n not in names} for one in updates],
            [1.0] * len(updates),
        )
        models, owed = dict(state.memory["models"]), dict(state.memory["owed"])
        since = dict(state.memory["since"])
        for update in updates:
            if (reward := result.rewards.get(update.client)) is not None:
                models[update.client] = {**add(update.brief.start, reward.change), **statistics}
                owed[update.client] = reward.values
                since[update.client] = state.version + 1
        reputation = {**state.memory["reputation"], **result.reputation}
        memory = {**state.memory, "models": models, "owed": owed, "since": since}
        memory["reputation"] = reputation
        weights = {**add(state.weights, result.step), **statistics}
        return replace(state, weights=weights, memory=memory)

    def merge(
        self, state: ServerState, lower: Sequence[ServerState], shares: Sequence[float]
    ) -> ServerState:
        """Weights are mixed; each client's records are those of its own tier."""
        merged = super().merge(state, lower, shares)
        records: dict[str, Any] = {name: dict(kept) for name, kept in state.memory.items()}
        for one in lower:
            for name, kept in one.memory.items():
                records[name].update(kept)
        return replace(merged, memory=records)

    def adopt(self, state: ServerState, upper: ServerState) -> ServerState:
        """Every client's model moves by the change of the tier's weights, and is downloaded whole.

        Running statistics are the higher tier's: repeated changes could make variances negative.
        """
        statistics = {name: upper.weights[name] for name in state.memory["statistics"]}
        movement = {
            name: tensor - state.weights[name]
            for name, tensor in upper.weights.items()
            if name not in statistics
        }
        models = {
            client: {**add(model, movement), **statistics}
            for client, model in state.memory["models"].items()
        }
        memory = {
            **state.memory,
            "models": models,
            "owed": dict.fromkeys(models, WHOLE),
            # The tier's own version stays, so a client that holds it may hold it from before.
            "since": dict.fromkeys(models, state.version + 1),
            "known": upper.memory["known"],
        }
        return replace(state, weights=upper.weights, memory=memory)

    def served(self, state: ServerState, client: int, memory: Memory) -> list[Parameters]:
        """The client's own model, with its last reward."""
        return [state.memory["models"][client]]

    def report(self, state: ServerState, updates: Sequence[Update]) -> dict[str, Any]:
        """`value` is the mean number of values downloaded for this round, whole models left out."""
        owed = [state.memory["owed"][update.client] for update in updates]
        sparse = [one for one in owed if one != WHOLE]
        reputation = state.memory["reputation"]
        return {
            "value": sum(sparse) / len(sparse) if sparse else math.nan,
            "clients": [update.client for update in updates],
            "downloaded_values": owed,
            "reputations": [reputation.get(update.client, 0.0) for update in updates],
        }

    def _turn(self, network: Network, state: ServerState, client: int) -> Price:
        """The cost of a round without its download."""
        return Price(down_bytes=0, up_bytes=network.size_bytes)

    def _shares(self, state: ServerState, reputation: Mapping[int, float]) -> dict[int, float]:
        """The basis of rewards: reputations, or each client's share of all contributions.

        Equal shares if all contributions are 0.
        """
        if self.reward_by == "reputation":
            return dict(reputation)
        contributions = {c: one["contribution"] for c, one in state.memory["known"].items()}
        total = sum(contributions.values())
        if not total:
            return dict.fromkeys(contributions, 1 / len(contributions))
        return {client: one / total for client, one in contributions.items()}


def moved_reputation(
    before: Mapping[int, float], seen: Mapping[int, float], keeps: float, begin: float | None
) -> dict[int, float]:
    """`keeps` times the held reputation plus the rest of the seen one; at least 1e-3, summing to 1.

    `begin`: the held reputation of a client without one; None: the seen one.
    """
    moved = dict(before)
    for client, figure in seen.items():
        held = before.get(client, figure if begin is None else begin)
        moved[client] = keeps * held + (1 - keeps) * figure
    floored = {client: max(one, 1e-3) for client, one in moved.items()}
    total = sum(floored.values())
    return {client: one / total for client, one in floored.items()}


def normalised_to(change: Parameters, length: float) -> Parameters:
    """A change scaled to this L2 norm over all its tensors."""
    scale = length / (float(flat(change).norm()) + 1e-7)
    return {name: scale * tensor for name, tensor in change.items()}


def layerwise_largest(step: Parameters, share: float) -> Reward:
    """The ceil(share * size) largest values of each tensor by magnitude, at most size - 1."""
    kept, sent = {}, 0
    for name, tensor in step.items():
        count = min(math.ceil(share * tensor.numel()), tensor.numel() - 1)
        kept[name] = largest(tensor, count)
        sent += count
    return Reward(kept, sent)


def largest(tensor: Tensor, count: int) -> Tensor:
    """The `count` largest values by magnitude in their places, zeros elsewhere; ties by place."""
    values = tensor.reshape(-1)
    kept = torch.argsort(values.abs(), descending=True, stable=True)[:count]
    result = torch.zeros_like(values)
    result[kept] = values[kept]
    return result.view(tensor.shape)


def flat(change: Parameters) -> Tensor:
    """All values of a change as one vector."""
    return torch.cat([tensor.reshape(-1) for tensor in change.values()])


def unflat(vector: Tensor, like: Parameters) -> Parameters:
    """A vector split into tensors with the shapes of `like`."""
    pieces = torch.split(vector, [tensor.numel() for tensor in like.values()])
    return {n: piece.view(like[n].shape) for n, piece in zip(like, pieces, strict=True)}


def _known(facts: ClientFacts) -> dict[str, float]:
    classes = sum(count > 0 for count in facts.label_counts)
    return {
        "contribution": facts.contribution,
        "examples": float(facts.num_examples),
        "classes": classes / max(len(facts.label_counts), 1),
    }
