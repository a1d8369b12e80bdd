"""FL Games: clients are players; their predictors form an ensemble, trained to a Nash equilibrium.

Gupta, Ahuja, Havaei, Chatterjee, Bengio: FL Games: A Federated Learning Framework for Distribution
Shifts, arXiv 2211.00184 (also 2205.11101); after Ahuja et al., Invariant Risk Minimization Games,
ICML 2020.

    w^k          client k's predictor, its action       weights "player-<k>/<parameter>"
    phi          the shared representation              weights under the parameters' own names
    w_av         (1/N) sum_k w^k(z), logits             `served`
    B_k, J       client k's past actions, at most J     memory "history", `buffer`
    R^k          mean loss on client k's data           `loss`
    C            share of the data per best response    `local.steps`, `local.share`
    eta_phi      learning rate of phi                   `representation_rate`
    seq(r)       who moves in round r                   `players`, `representation_every`

Eq. 1: client k minimises R^k((1/N)(w'_k + sum_{q != k} w^q) o phi); Eq. 2 (`smooth`) adds
sum_{p != k} 1/|B_p| sum_j w^p_j inside the bracket. "phi <- phi - eta_phi sum_k (N_k/N) g^k" is
`aggregate` in phi's rounds. The newest action is in the buffer too; an empty buffer contributes
nothing.

Departures from the paper: 1. phi is moved by Adam at the server, as in its settings, but not in its
formulas (`representation_optimizer: sgd` is the formula); 2. the mean of the past actions replaces
the current one (`buffer_norm: replace`), as in the text: "best responds to a uniform distribution
over the past strategies of its opponents". Eq. 2 as printed adds it and keeps the 1/N (`paper`: the
weights sum to (2N - 1)/N), `normalized` divides by their sum; 3. rounds that would update a fixed
representation do not exist; 4. C % is a number of optimizer steps over that many mini-batches
(`local.share`, of phi `representation_share`); one step over all data is `local:
{batch_size: null, steps: 1}`; 5. the paper gives no threshold, so there is none by default;
6. phi moves once in N + 1 moves, as in the code of Invariant Risk Minimization Games: first phi,
then every player once, from the first to the last (there from the last to the first). Algorithm 1
moves it in every round of even number, in sequential play as often as all players together
(`representation_every: 2`).

Known limits: players take part in flat synchronous rounds only; models with running statistics are
refused, because players would have different ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from simfl.algorithms.base import (
    Algorithm,
    ClientFacts,
    ServerState,
    Standing,
    Trait,
    Unmodelled,
    Work,
)
from simfl.algorithms.ensemble import Ensemble, Member
from simfl.algorithms.equilibrium import Equilibrium
from simfl.common.arrays import IntArray
from simfl.learning.evaluate import Evaluator
from simfl.learning.job import Brief, LocalTraining, Memory, Price, Recipe, Update
from simfl.learning.minibatch import Minibatch
from simfl.learning.network import Network
from simfl.learning.parameters import BYTES_PER_VALUE, Parameters, add
from simfl.learning.players import action_name, action_of, model_of, models_of
from simfl.learning.server_adam import NO_MOMENTS, adam_step
from simfl.learning.sums import weighted_mean
from simfl.streams import Streams

FLAT = "players respond to one another round by round, through one server"


@dataclass(frozen=True)
class FLGames(Algorithm):
    """Best responses of predictors in an ensemble; four switches give eight variants."""

    name: ClassVar[str] = "fl_games"
    whole_work: ClassVar[str] = "in its games all players of a round make the same number of steps"
    paper: ClassVar[str] = "arXiv 2211.00184"
    refusals: ClassVar[Mapping[Trait, str]] = {
        "hierarchical": FLAT,
        "overlapping": FLAT,
        "takes_stale_updates": FLAT,
    }
    uncoded: ClassVar[Mapping[Unmodelled, str]] = {
        "downlink": "players get forwarded messages, which were coded on the uplink"
    }
    learned_price: ClassVar[bool] = True
    stands: ClassVar[bool] = True

    local: Annotated[
        LocalTraining, "local training of a best response; without epochs, steps or share: one step"
    ] = field(
        default_factory=lambda: LocalTraining(
            steps=1, batch_size=256, learning_rate=2.5e-4, optimizer="adam"
        )
    )
    representation: Annotated[
        Literal["fixed", "variable"],
        "fixed: F-FL Games (phi is the identity); variable: V-FL Games",
    ] = "fixed"
    representation_layers: Annotated[
        int,
        ">= 1",
        "number of layers with parameters, from the input, that form phi if it is variable",
    ] = 1
    representation_rate: Annotated[float, "> 0", "learning rate of phi"] = 2.5e-5
    representation_optimizer: Literal["adam", "sgd"] = "adam"
    order: Annotated[
        Literal["sequential", "parallel"],
        "order of play: one player per round in turn, or all at once",
    ] = "parallel"
    smooth: Annotated[bool, "respond to the opponents' history too (Eq. 2)"] = False
    buffer: Annotated[int, ">= 1", "number of past actions kept for each player"] = 5
    buffer_norm: Annotated[
        Literal["paper", "normalized", "replace"], "how the history enters Eq. 2's weights"
    ] = "replace"
    fast: Annotated[bool, "phi's gradient over all local data instead of mini-batches"] = False
    representation_share: Annotated[
        float | None,
        "> 0",
        "<= 1",
        "share of the mini-batches for a step of phi; null: as in local",
    ] = None
    representation_every: Annotated[
        int | None, ">= 2", "rounds between two steps of phi; null: one step in N + 1 moves"
    ] = None
    bound: Annotated[float | None, "> 0", "bound on the size of the predictors' weights"] = None
    equilibrium: Annotated[Equilibrium, "when the game is over"] = field(
        default_factory=Equilibrium
    )

    def __post_init__(self) -> None:
        if self.fast and self.representation == "fixed":
            raise ValueError("fast: there is no representation to train; accepted: false")

    @property
    def idle_keys(self) -> dict[str, str]:
        """Keys of a representation or a history that this variant does not have."""
        idle = {"local.keep_optimizer": "players always keep their optimizers' states"}
        if self.representation == "fixed":
            reason = "the representation is fixed"
            own = ("layers", "rate", "optimizer", "share", "every")
            idle |= dict.fromkeys([f"representation_{one}" for one in own], reason)
        elif self.fast:
            idle["representation_share"] = "a fast step of phi uses all data"
        if not self.smooth:
            idle |= dict.fromkeys(("buffer", "buffer_norm"), "smooth is false")
        return idle

    # --- who plays, and what

    def check_network(self, network: Network) -> None:
        """Raises ValueError for a model with running statistics, or with too few layers."""
        if network.buffer_names:
            raise ValueError(
                "fl_games averages the outputs of players' models, which would have different"
                f" running statistics such as {network.buffer_names[0]}; take a model without"
                " BatchNorm"
            )
        layers = len(network.layers)
        if self.representation == "variable" and layers <= self.representation_layers:
            raise ValueError(
                f"representation_layers: found {self.representation_layers}, but the model has"
                f" {layers} layers, of which the last stays with the predictors; accepted: at most"
                f" {layers - 1}"
            )

    def among(self, count: int) -> Self:
        """Fills in an open `representation_every`: every player moves once between steps of phi."""
        if self.representation == "fixed" or self.representation_every is not None:
            return self
        return replace(self, representation_every=2 if self.order == "parallel" else count + 1)

    def moves_representation(self, version: int) -> bool:
        """Whether the round that starts from this version trains phi: the first of a period."""
        return self.representation == "variable" and version % self._period == 0

    @property
    def _period(self) -> int:
        """Rounds between two steps of phi."""
        if self.representation_every is None:
            raise RuntimeError("representation_every is open: ask what `among` gives")
        return self.representation_every

    def players(self, version: int, clients: Sequence[int]) -> Sequence[int]:
        """All clients, or in sequential play the next player in turn."""
        if self.order == "parallel" or self.moves_representation(version):
            return clients
        of_phi = 0 if self.representation == "fixed" else version // self._period + 1
        return [clients[(version - of_phi) % len(clients)]]

    def recipe(self, network: Network, version: int) -> Recipe:
        """A best response, or in rounds of phi the gradient of phi."""
        local = replace(self.local.at(version), keep_optimizer=True)
        if local.epochs is None and not local.counts_steps():
            local = replace(local, steps=1)
        predictor = self._predictor_names(network)
        if not self.moves_representation(version):
            return Recipe(local, trainable=frozenset(predictor))
        if self.fast:
            local = replace(local, epochs=1, steps=None, share=None)
        elif self.representation_share is not None:
            local = replace(local, epochs=None, steps=None, share=self.representation_share)
        phi = frozenset(network.parameter_names) - frozenset(predictor)
        return Recipe(local, kind="gradient", trainable=phi)

    # --- state, and what crosses a link

    def start(
        self, network: Network, clients: Mapping[int, ClientFacts], evaluator: Evaluator, seed: int
    ) -> ServerState:
        """Every predictor has its own initial weights; phi is shared."""
        streams, predictor = Streams(seed), self._predictor_names(network)
        common = network.initial(seed)
        weights = {name: one for name, one in common.items() if name not in predictor}
        for client in clients:
            own = network.initial(streams.seed("predictor", client))
            weights.update({action_name(client, name): own[name] for name in predictor})
        sizes = {client: facts.num_examples for client, facts in clients.items()}
        history: dict[int, list[Parameters]] = {client: [] for client in clients}
        memory = {"sizes": sizes, "history": history, "moments": NO_MOMENTS}
        return ServerState(weights, memory=memory)

    def brief(self, network: Network, state: ServerState, client: int, held: int) -> Brief:
        """The client's own model; the others' are in `common`."""
        player = sorted(state.memory["sizes"]).index(client)
        return Brief(
            start=model_of(state.weights, client),
            recipe=self.recipe(network, state.version),
            price=self._price(network, state, client),
            own={"player": torch.tensor(player, device=network.device)},
        )

    def common(self, state: ServerState) -> Ensemble:
        """All players' current predictors and, for smooth best responses, their history."""
        players = sorted(state.memory["sizes"])
        if not self.smooth or self.moves_representation(state.version):
            actions = [[Member(action_of(state.weights, one), 1.0)] for one in players]
            return Ensemble(actions, float(len(players)))
        divisor = None if self.buffer_norm == "normalized" else float(len(players))
        return Ensemble([self._members(state, one) for one in players], divisor)

    def _members(self, state: ServerState, player: int) -> list[Member]:
        """A player's current action and its history; the newest entry is the current action."""
        past: Sequence[Parameters] = state.memory["history"][player]
        if not past:
            return [Member(action_of(state.weights, player), 1.0)]
        current = 0.0 if self.buffer_norm == "replace" else 1.0
        older = [Member(one, 1.0 / len(past)) for one in past[:-1]]
        return [*older, Member(past[-1], current + 1.0 / len(past))]

    def _price(self, network: Network, state: ServerState, client: int) -> Price:
        """Bytes up, and the work of a response in an ensemble, relative to plain training.

        In forward passes of one example: plain training takes 3 of the whole model, a fixed member
        1 of its predictor, or 2 if phi's gradient passes back through it.
        """
        phi, predictor = self._sizes(network)
        share = phi / (phi + predictor)
        player = sorted(state.memory["sizes"]).index(client)
        others = len(self.common(state).against(player))
        if self.moves_representation(state.version):
            passes = 3 * share + 2 * (1 + others) * (1 - share)
            return Price(down_bytes=0, up_bytes=phi, work=passes / 3)
        passes = share + (3 + others) * (1 - share)
        return Price(down_bytes=0, up_bytes=predictor, work=passes / 3)

    def forwards(
        self, network: Network, version: int, moved: Sequence[int], clients: int
    ) -> IntArray:
        """New predictors to all other players, a new phi to all; at the start everything to all."""
        phi, predictor = self._sizes(network)
        if version == 0:
            return np.full(clients, phi + clients * predictor)
        if self.moves_representation(version - 1):
            return np.full(clients, phi)
        own: IntArray = np.bincount(np.asarray(moved, dtype=np.int64), minlength=clients)
        return predictor * (len(moved) - own)

    # --- the game

    def loss(self, parameters: Parameters, batch: Minibatch) -> Tensor:
        """R^k of the ensemble, with the other players' predictors fixed (Eqs. 1, 2)."""
        players = batch.own["player"].tolist()
        ensemble: Ensemble = batch.common
        return batch.mean_loss(ensemble.respond(parameters, batch.inputs, players, batch.each))

    def aggregate(
        self, state: ServerState, updates: Sequence[Update], evaluator: Evaluator
    ) -> ServerState:
        """Responses become the players' actions and join their histories; or phi takes a step."""
        if self.moves_representation(state.version):
            return self._moved_representation(state, updates)
        weights, history = dict(state.weights), dict(state.memory["history"])
        for update in updates:
            action = update.payload
            if self.bound is not None:
                action = {n: one.clamp(-self.bound, self.bound) for n, one in action.items()}
            weights.update({action_name(update.client, name): one for name, one in action.items()})
            if self.smooth:
                history[update.client] = [*history[update.client], action][-self.buffer :]
        return replace(state, weights=weights, memory={**state.memory, "history": history})

    def _moved_representation(self, state: ServerState, updates: Sequence[Update]) -> ServerState:
        sizes = [update.num_examples for update in updates]
        gradient = weighted_mean([update.payload for update in updates], sizes)
        rate = self.representation_rate
        if self.representation_optimizer == "sgd":
            return replace(state, weights=add(state.weights, gradient, scale=-rate))
        phi, moments = adam_step(state.weights, gradient, state.memory["moments"], rate)
        memory = {**state.memory, "moments": moments}
        return replace(state, weights={**state.weights, **phi}, memory=memory)

    def served(self, state: ServerState, client: int, memory: Memory) -> list[Parameters]:
        """All players' models: predictions use the mean of their logits, w_av o phi."""
        return models_of(state.weights)

    def standing(self, state: ServerState, evaluator: Evaluator) -> Standing:
        """Accuracy of w_av o phi on all clients' data, and whether the game is over."""
        sizes: Mapping[int, int] = state.memory["sizes"]
        warm = state.version > self.warm_start(list(sizes.values()))
        return self.equilibrium.standing(
            self.served(state, 0, Memory()), sizes, evaluator, warm=warm
        )

    def warm_start(self, sizes: Sequence[int]) -> int:
        """Rounds in which the game cannot end, for players with these numbers of examples."""
        if self.equilibrium.warm_start is not None:
            return self.equilibrium.warm_start
        epoch = max(sizes) // (self.local.batch_size or max(sizes))
        return len(sizes) if self.representation == "fixed" else epoch

    def server_work(self, network: Network, version: int, up_bytes: IntArray) -> Work:
        """Work to receive and forward predictors, or to sum phi's gradients and take a step."""
        received = float(up_bytes.sum())
        if not self.moves_representation(version):
            return Work(0.0, 2 * received)
        phi = self._sizes(network)[0]
        return Work(2.0 * received / BYTES_PER_VALUE + 12.0 * phi / BYTES_PER_VALUE, received + phi)

    # --- names and sizes

    def _predictor_names(self, network: Network) -> list[str]:
        """The parameters of a player's predictor, in the model's order."""
        first = self.representation_layers if self.representation == "variable" else 0
        return [name for layer in network.layers[first:] for name in layer]

    def _sizes(self, network: Network) -> tuple[int, int]:
        """Bytes of phi, and of one predictor."""
        own = network.size_of(self._predictor_names(network))
        return network.size_bytes - own, own
