"""What a run asks of what it learns: one interface, whether there is anything to learn or not.

`Values` stands behind it in a run that trains, `TimingOnly` in one that only takes time; nobody who
asks has to know which. Handles (`StateRef`, `Future`) go in and out without being computed; numbers
come out as learned facts (`learned_facts.py`), and where nothing is learned there are none: None,
an empty list, NaN.
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
        """The value of a key, if it is (still) there."""

    def put(self, key: str, value: Any) -> None:
        """Keep a value."""


@dataclass(frozen=True)
class Effort:
    """What was done so far, counted: jobs asked for, and of them trained here or looked up.

    `reused` are jobs and facts looked up in other runs' results, `recalled` are facts looked up in
    the run's own journal.
    """

    jobs_asked: int = 0
    jobs_trained: int = 0
    jobs_reused: int = 0
    facts_reused: int = 0
    facts_recalled: int = 0


class LearnedValues(ABC):
    """States of servers, jobs of clients, and the facts that are read off them."""

    # What a client round costs.

    @property
    @abstractmethod
    def work(self) -> ModelWork:
        """How much work the model is."""

    @abstractmethod
    def examples(self, num_examples: IntArray, version: int) -> FloatArray:
        """Examples that plain training passes over, of clients that hold `num_examples` each."""

    @abstractmethod
    def steps(self, num_examples: IntArray, version: int) -> FloatArray:
        """Steps in which it does so."""

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
        """Bytes that cross between an edge server and the cloud, each way, per dispatch."""

    @abstractmethod
    def forwards(self, ref: StateRef, moved: IntArray, clients: int) -> IntArray | None:
        """Bytes (clients,) that a server sends each client as soon as `ref` is made, or None.

        `moved` are the clients whose updates made it.
        """

    @abstractmethod
    def server_work(self, ref: StateRef, delivered: Delivered) -> Work:
        """What aggregating these updates costs the server."""

    # States and jobs.

    @abstractmethod
    def begin(self, clients: Sequence[int], tier: str) -> StateRef:
        """The state before training of the server that `tier` names, over its clients."""

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
        """Hand in clients' jobs, without training them yet; empty where nothing is trained."""

    @abstractmethod
    def computed(self, clients: IntArray, futures: Sequence[Future], time_s: FloatArray) -> None:
        """Clients end the computation of their jobs at `time_s`; inf: they never got them."""

    @abstractmethod
    def aggregate(
        self, ref: StateRef, delivered: Delivered, shares: Sequence[float] | None = None
    ) -> StateRef:
        """The tier's next state; with `shares`, one per update, each counts that much."""

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
        """What each client contributes, where somebody asks for it."""

    @abstractmethod
    def losses(self, ref: StateRef, clients: IntArray, now_s: float) -> FloatArray:
        """Mean loss on each client's own data of the model of `ref` that it is served, or NaN."""

    @abstractmethod
    def standing(self, ref: StateRef) -> Standing | None:
        """Where training stands, of an algorithm that says itself when it is over."""

    @abstractmethod
    def report(
        self, ref: StateRef, delivered: Delivered, shares: Sequence[float] | None = None
    ) -> dict[str, Any]:
        """What the algorithm says of updates that `ref` is about to `aggregate`; {} if nothing."""

    @abstractmethod
    def evaluation(self, ref: StateRef, now_s: float) -> dict[str, Any] | None:
        """How good what clients are served at `now_s` is on the test set."""

    @abstractmethod
    def served_at_clients(self, ref: StateRef, now_s: float) -> list[list[float]]:
        """[loss, accuracy] of what each client is served at `now_s`, on its own data."""

    @abstractmethod
    def global_at_clients(self, ref: StateRef) -> list[list[float]]:
        """[loss, accuracy] of the server's model on each client's own data."""

    @abstractmethod
    def rewards(self, ref: StateRef, now_s: float) -> list[list[float]]:
        """[loss, accuracy] on the test set of what each client is rewarded with at `now_s`."""

    @abstractmethod
    def loss_at_start(self, clients: Sequence[int]) -> float:
        """Loss on the test set of what the first of `clients` is served before any training."""

    # What it took, and what is kept of it.

    @property
    @abstractmethod
    def effort(self) -> Effort:
        """What learning took so far."""

    @abstractmethod
    def wall_s(self) -> Mapping[str, float]:
        """Wall seconds by what they were spent on."""

    def close(self) -> None:  # noqa: B027  # where nothing is learned there is nobody
        """Let go of whoever trains; they are there again when a value is asked for."""

    def trained_where(self) -> list[WorkerShare]:
        """How much each worker trained, if there are any."""
        return []

    def notices(self) -> list[Notice]:
        """What the training itself has to warn of."""
        return []

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """All learned values that the rest of the run may still read, as far as they are known."""
