"""Learned values of a timing-only run: sizes and work, no tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from simfl.algorithms.base import ServerState, Standing, Work
from simfl.common.arrays import FloatArray, IntArray
from simfl.common.model_work import ModelWork
from simfl.learning.job import LocalTraining, Price, Prices
from simfl.learning.network import Network
from simfl.learning.parameters import BYTES_PER_VALUE
from simfl.learning.trainer import Future
from simfl.protocols.deliveries import Delivered
from simfl.protocols.learned_facts import Contributions
from simfl.protocols.learned_values import Effort, LearnedValues
from simfl.protocols.state_ref import StateRef
from simfl.provenance.journal import Snapshot
from simfl.streams import Streams


class TimingOnly(LearnedValues):
    """Values for the algorithm `none`: versions are counted, but empty.

    Messages have the size of the named model, and computations the duration of its training.
    """

    def __init__(self, network: Network, local: LocalTraining, streams: Streams) -> None:
        self.network = network
        self.local = local
        self.streams = streams

    @property
    def min_updates(self) -> int:
        """1: a server aggregates any number of updates."""
        return 1

    @property
    def one_model_for_all(self) -> bool:
        """True: the same bytes for all clients."""
        return True

    def begin(self, clients: Sequence[int], tier: str) -> StateRef:
        """A state without weights."""
        return _empty(0)

    def players(self, ref: StateRef, clients: IntArray) -> IntArray:
        """All clients."""
        return clients

    def submit(
        self, clients: IntArray, rounds: IntArray, ref: StateRef, held: IntArray
    ) -> list[Future]:
        """Nothing is trained."""
        return []

    def computed(self, clients: IntArray, futures: Sequence[Future], time_s: FloatArray) -> None:
        """Nothing was trained."""

    def prices(
        self, clients: IntArray, futures: Sequence[Future], ref: StateRef, held: IntArray
    ) -> Prices:
        """The model down, the model up, plain training in between."""
        size = np.full(clients.size, self.network.size_bytes, dtype=np.int64)
        return Prices(size, size, np.ones(clients.size), np.zeros(clients.size))

    def plain_work(self, num_examples: IntArray, version: int) -> tuple[FloatArray, FloatArray]:
        """Examples passed over by the recipe, and its mini-batches, per client."""
        return self._amounts(self.local, num_examples)

    def trained(
        self, clients: IntArray, rounds: IntArray, num_examples: IntArray, version: int
    ) -> tuple[FloatArray, FloatArray]:
        """Examples and mini-batches, of which some clients do only a part."""
        if self.local.partial is None:
            return self.plain_work(num_examples, version)
        shares = self.local.partial.shares(self.streams, clients, rounds)
        return self.local.amounts(shares, num_examples, self._amounts)

    def _amounts(self, local: LocalTraining, sizes: IntArray) -> tuple[FloatArray, FloatArray]:
        """Examples passed over and mini-batches, for clients with so many examples."""
        smallest = self.network.smallest_batch
        return local.passes(sizes, smallest) * sizes, local.num_steps(sizes, smallest)

    def batches(self, num_examples: IntArray) -> FloatArray:
        """Mini-batches of one pass, per client."""
        batches: FloatArray = self.local.batches(num_examples)
        return batches

    @property
    def work(self) -> ModelWork:
        """The work of the model."""
        return self.network.work

    def forwards(self, ref: StateRef, moved: IntArray, clients: int) -> IntArray | None:
        """None: no messages outside rounds."""
        return None

    def tier_price(self, ref: StateRef) -> Price:
        """The model, in each direction."""
        return Price(self.network.size_bytes, self.network.size_bytes, work=0.0)

    def server_work(self, ref: StateRef, delivered: Delivered) -> Work:
        """The work of a plain mean."""
        received = float(delivered.up_bytes.sum())
        return Work(2.0 * received / BYTES_PER_VALUE, received + self.network.size_bytes)

    def aggregate(
        self, ref: StateRef, delivered: Delivered, shares: Sequence[float] | None = None
    ) -> StateRef:
        """The next version."""
        return _empty(ref.version + 1)

    def merge(self, ref: StateRef, lower: Sequence[StateRef], shares: Sequence[float]) -> StateRef:
        """The next version."""
        return _empty(ref.version + 1)

    def adopt(self, ref: StateRef, upper: StateRef) -> StateRef:
        """The same version."""
        return ref

    @property
    def contributions(self) -> Contributions | None:
        """None: there is no standalone learning either."""
        return None

    def losses(self, ref: StateRef, clients: IntArray, now_s: float) -> FloatArray:
        """No model has a loss."""
        return np.full(clients.size, np.nan)

    def standing(self, ref: StateRef) -> Standing | None:
        """None: only the scenario ends the run."""
        return None

    def report(
        self, ref: StateRef, delivered: Delivered, shares: Sequence[float] | None = None
    ) -> dict[str, Any]:
        """Empty."""
        return {}

    def evaluation(self, ref: StateRef, now_s: float) -> dict[str, Any] | None:
        """Nothing to evaluate."""
        return None

    def served_at_clients(self, ref: StateRef, now_s: float) -> list[list[float]]:
        """No scores."""
        return []

    def global_at_clients(self, ref: StateRef) -> list[list[float]]:
        """No scores."""
        return []

    def rewards(self, ref: StateRef, now_s: float) -> list[list[float]]:
        """No scores."""
        return []

    def loss_at_start(self, clients: Sequence[int]) -> float:
        """No model has a loss."""
        return np.nan

    @property
    def effort(self) -> Effort:
        """None."""
        return Effort()

    def wall_s(self) -> dict[str, float]:
        """Nothing is spent on learning."""
        return {}

    def snapshot(self) -> Snapshot:
        """Nothing to keep."""
        return Snapshot()


def _empty(version: int) -> StateRef:
    return StateRef("", version, lambda: ServerState({}))
