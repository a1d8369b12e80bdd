"""The interfaces of decision rules.

Each rule is a pure function `decide(memory, view, rng) -> (memory, choice)` of what the decider has
observed; it returns whatever it wants to remember as its new memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.decisions.views import AssociationView, ClientView, EdgeView


class Selection(ABC):
    """Chooses the clients of a round among those that may take part.

    With `needs_losses` clients report, with their upload, the mean loss on their data of the model
    that they received (`ClientView.last_loss`): a by-product of training that costs nothing.
    `looks_at` names the columns of the view that it reads, besides the clients; None: any.
    """

    needs_losses: ClassVar[bool] = False
    looks_at: ClassVar[frozenset[str] | None] = None

    def initial(self) -> Any:
        """Memory before the first decision."""
        return None

    def enough(self, players: int) -> int:
        """The number of available clients, out of `players`, that a round needs; by default 1.

        A round with fewer is starved, and the manifest warns of it.
        """
        return 1

    def wanted(self, players: int) -> int:
        """The number of clients, out of `players`, that a round should have; by default all."""
        return players

    @abstractmethod
    def decide(
        self, memory: Any, view: ClientView, rng: np.random.Generator
    ) -> tuple[Any, IntArray]:
        """New memory, and the numbers (not positions) of distinct clients out of `view.clients`."""


class QueryingSelection(Selection):
    """Base of selections that ask clients for their loss of the current model before choosing.

    Asking costs time, bytes and energy: the candidates download the model, and each one passes over
    its data once and sends the mean loss back. `decide` then sees the answers as `last_loss`. Its
    view has the clients that are still available, without those that were asked and did not answer
    (they left, or their answer was lost). If no client that answered is left, `candidates` is
    called again.
    """

    @abstractmethod
    def candidates(
        self, memory: Any, view: ClientView, rng: np.random.Generator
    ) -> tuple[Any, IntArray]:
        """New memory, and the numbers of distinct clients out of `view.clients` to ask."""


class Association(ABC):
    """Assigns every client to an edge server, before training.

    `looks_at_places`: whether it reads positions.
    """

    looks_at_places: ClassVar[bool] = True

    @abstractmethod
    def decide(
        self, view: AssociationView, rng: np.random.Generator
    ) -> tuple[IntArray, dict[str, Any]]:
        """The edge server of each client of the view, shape (clients,), and details for the log."""


class Scheduling(ABC):
    """Picks the next edge server that the cloud dispatches."""

    def initial(self) -> Any:
        """Memory before the first decision."""
        return None

    def owed_share(self, data_share: FloatArray) -> FloatArray:
        """The least share of all dispatches that the rule owes each edge server; by default 0."""
        return np.zeros(data_share.size)

    @abstractmethod
    def decide(
        self, memory: Any, view: EdgeView, rng: np.random.Generator
    ) -> tuple[Any, int, dict[str, Any]]:
        """New memory, the edge server picked (one with `view.idle`), and details for the log."""


class Estimator(ABC):
    """Estimates durations: of an edge server's dispatch, or of a client's round.

    Its memory is a row of numbers per entity; all methods take the rows of some entities, shape
    (entities, numbers), and columns over the same entities. `prior_s` is the duration that the
    server expects of an unobserved entity (NaN: unknown). With `needs_world` it is instead the mean
    of the next duration in the simulated world, which no server could know.
    """

    needs_world: ClassVar[bool] = False

    @abstractmethod
    def initial(self) -> tuple[float, ...]:
        """The row of an entity before its first observation."""

    @abstractmethod
    def observe(
        self, memory: FloatArray, duration_s: FloatArray, prior_s: FloatArray
    ) -> FloatArray:
        """The rows after one more observation of each entity."""

    @abstractmethod
    def estimate(self, memory: FloatArray, prior_s: FloatArray) -> FloatArray:
        """The estimate of the next duration in seconds, per entity."""

    def posterior(self, memory: FloatArray, prior_s: FloatArray) -> dict[str, FloatArray]:
        """Further parameters of the posterior, by name, for the log; by default none."""
        return {}


class Allocation(ABC):
    """Sets the CPU frequency of each client for its round.

    `looks_at` names the columns of the view that it reads (None: any). With `full_speed` no client
    ever computes below its highest frequency. With `at_most` a device takes its highest level that
    is not faster than decided, otherwise the nearest one. With `once_per_dispatch` a client's
    frequency holds for all rounds of its edge server's dispatch.
    """

    looks_at: ClassVar[frozenset[str] | None] = None
    full_speed: ClassVar[bool] = False
    at_most: ClassVar[bool] = False

    @property
    def once_per_dispatch(self) -> bool:
        """Whether frequencies hold until the edge server is dispatched again; by default not."""
        return False

    @abstractmethod
    def decide(self, view: ClientView, rng: np.random.Generator) -> FloatArray:
        """Hz per client of the view; devices clip it to their range and round it to a level."""


class Staleness(ABC):
    """The weight of an update that is some versions old."""

    @abstractmethod
    def share(self, staleness: IntArray | int) -> Any:
        """Mixing share in [0, 1] of a model that is `staleness` versions old."""
