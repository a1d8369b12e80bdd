"""The interfaces of measures, which compute named numbers of a finished run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from simfl.learning.federation import Federation
from simfl.runs.runfolder import LoadedRun


class Measure(ABC):
    """Computed from a run's tables at its end, and kept in its manifest.

    `needs_contributions`: it reads clients' contributions and rewards, the columns `contribution`,
    `reward_loss` and `reward_accuracy` of `clients`. `needs_validation`: it reads the rows of
    `evaluations` whose `on` is "validation". `learned`: its figures depend on learned values, not
    only on events.
    """

    needs_contributions: ClassVar[bool] = False
    needs_validation: ClassVar[bool] = False
    learned: ClassVar[bool] = True

    def check_clients(self, client_count: int) -> None:  # noqa: B027  # most fit any number
        """Raises ValueError, naming the field, if the settings do not fit the number of clients."""

    @abstractmethod
    def compute(self, run: LoadedRun) -> dict[str, float]:
        """The figures by name, with units in the names; NaN if the run cannot tell.

        No figures if the run has nothing to measure, such as queues of a flat protocol.
        """


class ModelMeasure(Measure):
    """A measure of the final model on the clients' data, not only of the tables."""

    def compute(self, run: LoadedRun) -> dict[str, float]:
        """Raises TypeError, because it needs more than the tables."""
        raise TypeError(f"{type(self).__name__} needs the model: use `assess`")

    @abstractmethod
    def assess(
        self, run: LoadedRun, federation: Federation, rng: np.random.Generator
    ) -> dict[str, float]:
        """The figures by name; `rng` is for random draws."""
