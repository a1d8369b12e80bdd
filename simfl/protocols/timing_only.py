"""The seam of a run without learning: the same world and decisions, no tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simfl.algorithms.base import ServerState, Work
from simfl.common.arrays import FloatArray, IntArray
from simfl.learning.job import LocalTraining, Price, Prices
from simfl.learning.network import Network
from simfl.learning.parameters import BYTES_PER_VALUE
from simfl.learning.trainer import Future
from simfl.protocols.deliveries import Delivered
from simfl.protocols.state_ref import StateRef


class TimingOnly:
    """Stands where `Values` stands when the algorithm is `none`: sizes and work, nothing learned.

    Messages are as large as the named model, clients compute as long as training it would take.
    """

    def __init__(self, network: Network, local: LocalTraining) -> None:
        self._network = network
        self._local = local

    @property
    def min_updates(self) -> int:
        """A server aggregates whatever there is."""
        return 1

    def begin(self, clients: Sequence[int], tier: str) -> StateRef:
        """A state without weights."""
        return _empty(0)

    def players(self, ref: StateRef, clients: IntArray) -> IntArray:
        """Everybody may play."""
        return clients

    def submit(
        self, clients: IntArray, turns: IntArray, ref: StateRef, held: IntArray
    ) -> list[Future]:
        """Nothing is trained."""
        return []

    def computed(self, clients: IntArray, futures: Sequence[Future], time_s: FloatArray) -> None:
        """Nothing was trained."""

    def prices(
        self, clients: IntArray, futures: Sequence[Future], ref: StateRef, held: IntArray
    ) -> Prices:
        """The model down, the model up, plain training in between."""
        size = np.full(clients.size, self._network.size_bytes, dtype=np.int64)
        return Prices(size, size, np.ones(clients.size))

    def examples(self, num_examples: IntArray, version: int) -> FloatArray:
        """Examples passed over by the recipe, per client."""
        passes: FloatArray = self._local.passes(num_examples) * num_examples
        return passes

    @property
    def forward_flops(self) -> float:
        """Floating-point operations of one example's forward pass."""
        return self._network.forward_flops

    def forwards(self, ref: StateRef, moved: IntArray, clients: int) -> IntArray | None:
        """Nothing beside turns."""
        return None

    def tier_price(self, ref: StateRef) -> Price:
        """The model, each way."""
        return Price(self._network.size_bytes, self._network.size_bytes, work=0.0)

    def server_work(self, ref: StateRef, delivered: Delivered) -> Work:
        """That of a plain mean."""
        received = float(delivered.up_bytes.sum())
        return Work(2.0 * received / BYTES_PER_VALUE, received + self._network.size_bytes)

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
    def jobs_trained(self) -> int:
        """None."""
        return 0

    def wall_s(self) -> dict[str, float]:
        """Nothing is spent on learning."""
        return {}


def _empty(version: int) -> StateRef:
    return StateRef("", version, lambda: ServerState({}))
