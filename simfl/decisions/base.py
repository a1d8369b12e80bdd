"""The decisions of a run: who takes part, with whom, when, how fast, and how much it counts.

Each is a pure function `decide(memory, view, rng) -> (memory, choice)` of what the decider has
observed; whatever it wants to remember between decisions it returns as its new memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.decisions.views import AssociationView, ClientView, EdgeView


class Selection(ABC):
    """Chooses the clients of a round among those that may play.

    `needs_losses` asks that clients report, with their upload, the mean loss on their data of the
    model that they received (`ClientView.last_loss`): a by-product of training that costs nothing.
    `looks_at` names the columns of the view that it reads, beside the clients; None: it may be any.
    """

    needs_losses: ClassVar[bool] = False
    looks_at: ClassVar[frozenset[str] | None] = None

    def initial(self) -> Any:
        """Memory before the first decision."""
        return None

    def enough(self, players: int) -> int:
        """How many clients must be there so that a round lacks none: of so many players, one.

        A round with fewer is starved, of which the manifest warns.
        """
        return 1

    def wanted(self, players: int) -> int:
        """How many clients a round is to have, of so many players; all of them."""
        return players

    @abstractmethod
    def decide(
        self, memory: Any, view: ClientView, rng: np.random.Generator
    ) -> tuple[Any, IntArray]:
        """The numbers (not positions) of distinct clients chosen out of `view.clients`."""


class QueryingSelection(Selection):
    """Base of selections that ask clients, before they choose, for their loss of the current model.

    Asking costs time, bytes and energy: the model goes down to the candidates, each passes over its
    data once and sends the mean loss back. Then `decide` sees the answers as `last_loss`. Its view
    is of the clients that are still there, without those that were asked and did not answer: who
    left meanwhile, and whose answer was lost. Where nobody who answered is left, `candidates` is
    asked again.
    """

    @abstractmethod
    def candidates(
        self, memory: Any, view: ClientView, rng: np.random.Generator
    ) -> tuple[Any, IntArray]:
        """New memory, and the numbers of distinct clients out of `view.clients` to be asked."""


class Association(ABC):
    """Assigns every client to an edge server, before training.

    `looks_at_places` says that it reads positions.
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
        """The least share of all dispatches that the rule owes each edge server: none."""
        return np.zeros(data_share.size)

    @abstractmethod
    def decide(
        self, memory: Any, view: EdgeView, rng: np.random.Generator
    ) -> tuple[Any, int, dict[str, Any]]:
        """New memory, the edge server picked (one with `view.idle`), and details for the log."""


class Estimator(ABC):
    """Estimates how long something takes: an edge server's dispatch, a client's round.

    Its memory is a row of numbers per entity; all methods take the rows of some entities, shape
    (entities, numbers), and columns over the same entities. `prior_s` is what the server expects
    of an entity that it has not observed (NaN: nothing). With `needs_world` it is the mean of its
    next duration as the simulated world has it instead, which no server could know.
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
        """Seconds that the next one will take, per entity."""

    def posterior(self, memory: FloatArray, prior_s: FloatArray) -> dict[str, FloatArray]:
        """What else is believed, by name, for the log: nothing."""
        return {}


class Allocation(ABC):
    """Sets the CPU frequency of each client for its round.

    `looks_at` names the columns of the view that it reads (None: it may be any); with `full_speed`
    nobody ever computes below the highest frequency. With `at_most` a device takes the highest of
    its levels that is no faster than decided, else the nearest one. With `once_per_dispatch` what
    is decided of a client holds for all rounds of its edge server's dispatch.
    """

    looks_at: ClassVar[frozenset[str] | None] = None
    full_speed: ClassVar[bool] = False
    at_most: ClassVar[bool] = False

    @property
    def once_per_dispatch(self) -> bool:
        """Whether clocks are kept until the edge server is dispatched again: no."""
        return False

    @abstractmethod
    def decide(self, view: ClientView, rng: np.random.Generator) -> FloatArray:
        """Hz per client of the view; devices clip it to their range and round it to a level."""


class Staleness(ABC):
    """How much an update counts that is late by some versions."""

    @abstractmethod
    def share(self, staleness: IntArray | int) -> Any:
        """Mixing share in [0, 1] of a model that is `staleness` versions old."""
