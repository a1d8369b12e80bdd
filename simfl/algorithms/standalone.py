"""Standalone: every client trains alone; the baseline that collaboration has to beat.

    E, B, eta   local epochs per round, batch size, learning rate   `local`

Every tensor is private: a client's model stays with it between rounds and nothing crosses a link. A
client is served its own model; the reported accuracy is the mean over clients.

Known limits: BatchNorm statistics are private too, so clients share nothing at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from simfl.algorithms.base import Algorithm, ServerState, Work
from simfl.common.arrays import IntArray
from simfl.learning.evaluate import Evaluator
from simfl.learning.job import Memory, Price, Recipe, Update
from simfl.learning.network import Network
from simfl.learning.parameters import Parameters


@dataclass(frozen=True)
class Standalone(Algorithm):
    """Local training without communication."""

    name: ClassVar[str] = "standalone"
    personal: ClassVar[bool] = True

    def recipe(self, network: Network, version: int) -> Recipe:
        """Plain training; every tensor is private."""
        private = frozenset(network.parameter_names) | frozenset(network.buffer_names)
        return Recipe(self.local.at(version), private=private)

    def price(self, network: Network, client: int, version: int) -> Price:
        """No message in either direction."""
        return Price(down_bytes=0, up_bytes=0)

    def tier_price(self, network: Network, version: int) -> Price:
        """No message between the tiers either."""
        return Price(down_bytes=0, up_bytes=0, work=0.0)

    def aggregate(
        self, state: ServerState, updates: Sequence[Update], evaluator: Evaluator
    ) -> ServerState:
        """The server learns nothing."""
        return state

    def served(self, state: ServerState, client: int, memory: Memory) -> list[Parameters]:
        """The client's own model as of its last finished job."""
        return [{**state.weights, **memory.private}]

    def server_work(self, network: Network, version: int, up_bytes: IntArray) -> Work:
        """Nothing to aggregate."""
        return Work(0.0, 0.0)
