"""Games without a clock: players, their data, and rounds one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from simfl.algorithms.base import ClientFacts, ServerState
from simfl.algorithms.fl_games import FLGames
from simfl.learning.batched import BatchedTrainer
from simfl.learning.datasets.base import Examples
from simfl.learning.evaluate import Evaluator, client_set
from simfl.learning.job import Update
from simfl.learning.network import Network
from simfl.learning.objective import Objective
from simfl.learning.objective import Task as Kind
from simfl.learning.trainer import Future, LocalJob, Trainer


class Game:
    """Rounds of `algorithm` over `shards`, from its own start; `state` is where it stands."""

    def __init__(
        self,
        algorithm: FLGames,
        factory: Callable[[], nn.Module],
        shards: Sequence[Examples],
        *,
        task: Kind = "classification",
        trainer: type[Trainer] = BatchedTrainer,
    ) -> None:
        self.algorithm = algorithm = algorithm.among(len(shards))
        shape = tuple(shards[0].inputs.shape[1:])
        self.network = Network(factory, shape, Objective(task), torch.float64)
        self.trainer = trainer(self.network, shards, algorithm.loss)
        sets = {client_set(client): shard for client, shard in enumerate(shards)}
        self.evaluator = Evaluator(self.network, sets)
        facts = {client: ClientFacts(len(shard)) for client, shard in enumerate(shards)}
        self.state: ServerState = algorithm.start(self.network, facts, self.evaluator, 7)
        self._latest: dict[int, Future] = {}

    def responses(self, players: Sequence[int] | None = None) -> list[Update]:
        """What the players whose turn it is (or these) answer to the state as it is."""
        state, algorithm = self.state, self.algorithm
        common = algorithm.common(state)
        clients = list(range(len(self.trainer.shards)))
        chosen = algorithm.players(state.version, clients) if players is None else players
        futures = [self._submitted(client, common) for client in chosen]
        return [future.result() for future in futures]

    def _submitted(self, client: int, common: Any) -> Future:
        state = self.state
        future = self.trainer.submit(
            LocalJob(
                key=f"{client}/{state.version}",
                client=client,
                seed=1000 * client + state.version,
                version=state.version,
                make_brief=lambda: self.algorithm.brief(self.network, state, client, -1),
                previous=self._latest.get(client),
                make_common=lambda: common,
            )
        )
        self._latest[client] = future
        return future

    def round(self) -> None:
        """One more round."""
        new = self.algorithm.aggregate(self.state, self.responses(), self.evaluator)
        self.state = ServerState(new.weights, self.state.version + 1, new.memory)

    def action(self, player: int) -> dict[str, torch.Tensor]:
        """A player's predictor."""
        prefix = f"player-{player}/"
        weights = self.state.weights.items()
        return {n.removeprefix(prefix): one for n, one in weights if n.startswith(prefix)}


def clouds(sizes: Sequence[int], features: int = 4, classes: int = 3) -> list[Examples]:
    """Random points with random labels, one shard per size."""
    generator = torch.Generator().manual_seed(11)
    return [
        Examples(
            torch.randn(size, features, generator=generator, dtype=torch.float64),
            torch.randint(classes, (size,), generator=generator),
        )
        for size in sizes
    ]
