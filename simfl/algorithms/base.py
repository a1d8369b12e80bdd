"""The interface that every federated algorithm implements: no clock, no hardware.

An algorithm holds hyper-parameters only; everything that changes lives in a `ServerState`, which
is passed in and returned. `aggregate` works within one tier (an edge server over its clients, or a
flat server over all of them), `merge` and `adopt` carry a state between tiers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal, Self

from torch import Tensor

from simfl.common.arrays import IntArray
from simfl.learning.evaluate import Evaluator
from simfl.learning.job import Brief, LocalTraining, Memory, Price, Recipe, Update
from simfl.learning.minibatch import Minibatch, plain_loss
from simfl.learning.network import Network
from simfl.learning.parameters import BYTES_PER_VALUE, Parameters
from simfl.learning.sums import weighted_mean, weighted_sum

Unmodelled = Literal["uplink", "downlink", "error_feedback"]
"""The uses of codecs that an algorithm's messages may rule out (`Algorithm.uncoded`)."""

Trait = Literal["hierarchical", "overlapping", "takes_stale_updates"]
"""Properties of a protocol (`Protocol` in protocols/base.py) that an algorithm may refuse."""


@dataclass(frozen=True)
class ServerState:
    """The state of one server: weights, its own version, and records that survive tier boundaries.

    `memory` holds per-client records of the algorithm (reputations, masks, the models that
    physically lie with clients); an algorithm that uses it handles every key in `merge` and
    `adopt`.
    """

    weights: Parameters
    version: int = 0
    memory: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ClientFacts:
    """What the server knows about a client before training: data size and label counts.

    `contribution` is the test accuracy of a model that the client trained alone (NaN: not computed,
    see `Algorithm.needs_contributions`).
    """

    num_examples: int
    label_counts: tuple[int, ...] = ()
    contribution: float = math.nan


@dataclass(frozen=True)
class Work:
    """The work of a server: floating-point operations, and bytes moved through its memory."""

    flops: float
    bytes_moved: float


@dataclass(frozen=True)
class Standing:
    """The progress of training at a version: loss and accuracy on training data.

    `over` is the reason to end the run with this version; None: it continues.
    """

    loss: float
    accuracy: float
    over: str | None = None


@dataclass(frozen=True)
class Algorithm:
    """Base of every algorithm: FedAvg's behaviour, each method overridden at most once.

    Class variables state what the mathematics allows. `refusals`: the properties that a protocol
    must not have, each with the reason (protocols are not named, so that users' own are treated the
    same). `paper_protocol`: the protocol of its paper (the log notes a run under another one).
    `min_updates`: the fewest updates that `aggregate` takes. `learned_price`: whether a brief's
    price depends on the state. `personal`: whether clients are served different models. `uncoded`:
    the directions in which codecs only size messages, because the link carries something made from
    a brief's start or an update's payload, not these themselves; and whether residuals are
    impossible; each with the reason. `stands`: whether `standing` is called at every version.
    `learns`: whether there is anything to train. `needs_validation`: whether the server must hold a
    validation set. `whole_work`: the reason why every client must do all of the local work; empty:
    some may do only a part (`local.partial`).
    """

    local: LocalTraining = field(default_factory=LocalTraining)

    paper: ClassVar[str] = ""
    refusals: ClassVar[Mapping[Trait, str]] = {}
    paper_protocol: ClassVar[str] = "synchronous"
    min_updates: ClassVar[int] = 1
    learned_price: ClassVar[bool] = False
    uncoded: ClassVar[Mapping[Unmodelled, str]] = {}
    personal: ClassVar[bool] = False
    stands: ClassVar[bool] = False
    learns: ClassVar[bool] = True
    needs_validation: ClassVar[bool] = False
    whole_work: ClassVar[str] = ""

    @property
    def needs_contributions(self) -> bool:
        """Whether clients' standalone accuracy must be known before the start."""
        return False

    @property
    def needs_classes(self) -> bool:
        """Whether it divides by shares of correct answers: a regression's R^2 may be negative."""
        return False

    @property
    def priced_for(self) -> int | None:
        """The number of clients per round that its prices assume; None: independent of it."""
        return None

    @property
    def idle_keys(self) -> dict[str, str]:
        """Own keys (dotted) that nothing reads, given the other keys, each with the reason."""
        return {f"local.{key}": reason for key, reason in self.local.idle_keys.items()}

    def check_clients(self, count: int) -> None:
        """Raises ValueError, naming the field, if the settings do not fit `count` clients."""

    def among(self, count: int) -> Self:
        """These settings with open fields filled in for a population of `count` clients."""
        return self

    def check_network(self, network: Network) -> None:
        """Raises ValueError for a model that the algorithm cannot handle."""

    def start(
        self, network: Network, clients: Mapping[int, ClientFacts], evaluator: Evaluator, seed: int
    ) -> ServerState:
        """The state before any training; `clients` are those of this server."""
        return ServerState(network.initial(seed))

    def players(self, version: int, clients: Sequence[int]) -> Sequence[int]:
        """Which of `clients` may play at this version; selection chooses among them."""
        return clients

    def common(self, state: ServerState) -> Any:
        """Tensors shared by all jobs of a state, never stacked per job (None: nothing shared)."""
        return None

    def recipe(self, network: Network, version: int) -> Recipe:
        """The local work of a client at this version."""
        return _plain(self.local.at(version))

    def price(self, network: Network, client: int, version: int) -> Price:
        """Bytes and work of a round, if they follow from the model alone."""
        return _whole_model(network.size_bytes)

    def forwards(
        self, network: Network, version: int, moved: Sequence[int], clients: int
    ) -> IntArray | None:
        """Bytes that a flat server sends to each client of `clients` as soon as a version exists.

        `moved`: the clients whose updates made the version. None: clients get what they need at
        dispatch.
        """
        return None

    def tier_price(self, network: Network, version: int) -> Price:
        """Bytes between an edge server and the cloud, in each direction, per dispatch."""
        return Price(down_bytes=network.size_bytes, up_bytes=network.size_bytes, work=0.0)

    def brief(self, network: Network, state: ServerState, client: int, held: int) -> Brief:
        """What `client` gets now; `held` is the version it last received (-1: none so far)."""
        return Brief(
            start=state.weights,
            recipe=self.recipe(network, state.version),
            price=self.price(network, client, state.version),
        )

    def loss(self, parameters: Parameters, batch: Minibatch) -> Tensor:
        """One loss per job, shape (jobs,): what the clients minimise.

        Every tensor has a leading job axis (of length 1 in the sequential reference); reduce over
        trailing axes only, or jobs trained together would mix.
        """
        return plain_loss(parameters, batch)

    def aggregate(
        self, state: ServerState, updates: Sequence[Update], evaluator: Evaluator
    ) -> ServerState:
        """A server's new state from its clients' updates: the mean weighted by data size.

        Tensors that no update carries (private ones) stay unchanged.
        """
        sizes = [update.num_examples for update in updates]
        mean = weighted_mean([update.payload for update in updates], sizes)
        return replace(state, weights={**state.weights, **mean})

    def report(self, state: ServerState, updates: Sequence[Update]) -> dict[str, Any]:
        """The log entry for `updates` that `state` is about to aggregate; empty by default.

        Numbers, strings and lists of them by name; `value` is the row's number. If an algorithm
        overrides this, every update is computed when it arrives.
        """
        return {}

    def merge(
        self, state: ServerState, lower: Sequence[ServerState], shares: Sequence[float]
    ) -> ServerState:
        """A higher tier mixes in lower ones: `(1 - sum shares) * own + sum shares_i * lower_i`."""
        members = [state.weights, *[one.weights for one in lower]]
        return replace(state, weights=weighted_sum(members, [1.0 - sum(shares), *shares]))

    def adopt(self, state: ServerState, upper: ServerState) -> ServerState:
        """A lower tier takes over the higher tier's weights and keeps its own records."""
        return replace(state, weights=upper.weights)

    def served(self, state: ServerState, client: int, memory: Memory) -> list[Parameters]:
        """The models whose averaged logits serve `client`, as its reward."""
        return [state.weights]

    def concluded(self, state: ServerState, evaluator: Evaluator) -> ServerState:
        """The last state, made ready to serve clients their rewards after training."""
        return state

    def validation_passes(self, network: Network, version: int, updates: int) -> float:
        """Forward passes over the server's validation set to aggregate this many updates."""
        return 0.0

    def standing(self, state: ServerState, evaluator: Evaluator) -> Standing:
        """The progress of training and whether it is over; called if the algorithm `stands`."""
        raise NotImplementedError

    def server_work(self, network: Network, version: int, up_bytes: IntArray) -> Work:
        """The cost of aggregating updates of these sizes: 2 K P operations, K + 1 models moved."""
        received = float(up_bytes.sum())
        return Work(2.0 * received / BYTES_PER_VALUE, received + network.size_bytes)


# Every job needs both, usually the same as the job before.


@lru_cache(maxsize=64)
def _plain(local: LocalTraining) -> Recipe:
    """Local training of the whole model, and nothing else."""
    return Recipe(local)


@lru_cache(maxsize=64)
def _whole_model(size_bytes: int) -> Price:
    """The model down, and up again."""
    return Price(down_bytes=size_bytes, up_bytes=size_bytes)
