"""The interface between a run and its learned values, with or without learning.

`Values` implements it in a run that trains, `TimingOnly` in a timing-only run; callers need not
know which. Handles (`StateRef`, `Future`) are passed without being computed; numbers are learned
facts (`learned_facts.py`), and without learning there are none: None, an empty list, NaN.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from simfl.algorithms.base import Standing, Work
from simfl.common.arrays import FloatArray, IntArray
from simfl.common.model_work import ModelWork
from simfl.common.notices import Notice
from simfl.learning.job import Price, Prices
from simfl.learning.trainer import Future
from simfl.learning.workers.tally import WorkerShare
from simfl.protocols.deliveries import Delivered
from simfl.protocols.learned_facts import Contributions
from simfl.protocols.state_ref import StateRef
from simfl.provenance.journal import Snapshot


class ValueStore(Protocol):
    """Values of tensors by key, kept for this run and others."""

    def get(self, key: str) -> Any | None:
        """The value of a key, if it is (still) stored."""

    def put(self, key: str, value: Any) -> None:
        """Stores a value."""


@dataclass(frozen=True)
class Effort:
    """Counts of the effort so far: jobs needed, and how many were trained here or looked up.

    `reused`: jobs and facts looked up in other runs' results; `recalled`: facts looked up in the
    run's own journal.
    """

    jobs_asked: int = 0
    jobs_trained: int = 0
    jobs_reused: int = 0
    facts_reused: int = 0
    facts_recalled: int = 0


class LearnedValues(ABC):
    """States of servers, jobs of clients, and the facts computed from them."""

    # The cost of client rounds.

    @property
    @abstractmethod
    def work(self) -> ModelWork:
        """The work of the model."""

    @abstractmethod
    def plain_work(self, num_examples: IntArray, version: int) -> tuple[FloatArray, FloatArray]:
        """Examples that plain training passes over, and its steps, per client."""

    @abstractmethod
    def trained(
        self, clients: IntArray, rounds: IntArray, num_examples: IntArray, version: int
    ) -> tuple[FloatArray, FloatArray]:
        """Examples and steps of the training that each of these clients does, maybe only a part.

        `rounds` (clients,): how many rounds each has had before.
        """

    @abstractmethod
    def batches(self, num_examples: IntArray) -> FloatArray:
        """Mini-batches of one pass over the data of such clients."""

    @abstractmethod
    def prices(
        self, clients: IntArray, futures: Sequence[Future], ref: StateRef, held: IntArray
    ) -> Prices:
        """Bytes and work of each client's round; `held` is the version it last received."""

    @abstractmethod
    def tier_price(self, ref: StateRef) -> Price:
        """Bytes between an edge server and the cloud, in each direction, per dispatch."""

    @abstractmethod
    def forwards(self, ref: StateRef, moved: IntArray, clients: int) -> IntArray | None:
        """Bytes (clients,) that a server sends to each client as soon as `ref` exists, or None.

        `moved`: the clients whose updates made it.
        """

    @abstractmethod
    def server_work(self, ref: StateRef, delivered: Delivered) -> Work:
        """The server's cost to aggregate these updates."""

    # States and jobs.

    @abstractmethod
    def begin(self, clients: Sequence[int], tier: str) -> StateRef:
        """The state before training of the server named by `tier`, with its clients."""

    @property
    @abstractmethod
    def min_updates(self) -> int:
        """The fewest updates that a server can aggregate."""

    @property
    @abstractmethod
    def one_model_for_all(self) -> bool:
        """Whether a version is the same model for every client that downloads it."""

    @abstractmethod
    def players(self, ref: StateRef, clients: IntArray) -> IntArray:
        """Which of `clients` may play at this version."""

    @abstractmethod
    def submit(
        self, clients: IntArray, rounds: IntArray, ref: StateRef, held: IntArray
    ) -> list[Future]:
        """Submits clients' jobs without training them yet; empty if nothing is trained."""

    @abstractmethod
    def computed(self, clients: IntArray, futures: Sequence[Future], time_s: FloatArray) -> None:
        """Clients end the computation of their jobs at `time_s` (inf: they never got them)."""

    @abstractmethod
    def aggregate(
        self, ref: StateRef, delivered: Delivered, shares: Sequence[float] | None = None
    ) -> StateRef:
        """The server's next state; `shares` are the weights of the updates."""

    @abstractmethod
    def merge(self, ref: StateRef, lower: Sequence[StateRef], shares: Sequence[float]) -> StateRef:
        """A higher tier's next state, after mixing in lower ones with these shares."""

    @abstractmethod
    def adopt(self, ref: StateRef, upper: StateRef) -> StateRef:
        """A lower tier's state after it took over the higher tier's; its own version stays."""

    # Learned facts.

    @property
    @abstractmethod
    def contributions(self) -> Contributions | None:
        """Each client's contribution, if needed."""

    @abstractmethod
    def losses(self, ref: StateRef, clients: IntArray, now_s: float) -> FloatArray:
        """Mean loss on each client's own data of the model of `ref` that serves it, or NaN."""

    @abstractmethod
    def standing(self, ref: StateRef) -> Standing | None:
        """The progress of training, for an algorithm that decides itself when it is over."""

    @abstractmethod
    def report(
        self, ref: StateRef, delivered: Delivered, shares: Sequence[float] | None = None
    ) -> dict[str, Any]:
        """The algorithm's log entry for updates that `ref` is about to `aggregate`; {} if none."""

    @abstractmethod
    def evaluation(self, ref: StateRef, now_s: float) -> dict[str, Any] | None:
        """The evaluation on the test set of the models that serve clients at `now_s`."""

    @abstractmethod
    def served_at_clients(self, ref: StateRef, now_s: float) -> list[list[float]]:
        """[loss, accuracy] of each client's served model at `now_s`, on its own data."""

    @abstractmethod
    def global_at_clients(self, ref: StateRef) -> list[list[float]]:
        """[loss, accuracy] of the server's model on each client's own data."""

    @abstractmethod
    def rewards(self, ref: StateRef, now_s: float) -> list[list[float]]:
        """[loss, accuracy] on the test set of each client's reward at `now_s`."""

    @abstractmethod
    def loss_at_start(self, clients: Sequence[int]) -> float:
        """Loss on the test set of the model that serves the first of `clients` before training."""

    # Effort, and results to keep.

    @property
    @abstractmethod
    def effort(self) -> Effort:
        """The effort of learning so far."""

    @abstractmethod
    def wall_s(self) -> Mapping[str, float]:
        """Wall seconds by phase."""

    def close(self) -> None:  # noqa: B027  # where nothing is learned there is nobody
        """Releases the workers; they start again when a value is needed."""

    def trained_where(self) -> list[WorkerShare]:
        """The number of jobs trained by each worker, if there are any."""
        return []

    def notices(self) -> list[Notice]:
        """Warnings of the training itself."""
        return []

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """All known learned values that the rest of the run may still read."""
