"""The interfaces of measures: a finished run into named numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from simfl.learning.federation import Federation
from simfl.runs.runfolder import LoadedRun


class Measure(ABC):
    """Computed from a run's tables when it has ended, and kept in its manifest.

    `needs_contributions` says that it reads what clients contribute and are rewarded with: the
    columns `contribution`, `reward_loss` and `reward_accuracy` of `clients`. `learned` says that
    its figures go by what is learned, and not by events alone.
    """

    needs_contributions: ClassVar[bool] = False
    learned: ClassVar[bool] = True

    def check_clients(self, client_count: int) -> None:  # noqa: B027  # most fit any number
        """Raises ValueError, naming the field, where the settings do not fit so many clients."""

    @abstractmethod
    def compute(self, run: LoadedRun) -> dict[str, float]:
        """The figures by name, units in the names; NaN where the run cannot tell.

        No figures at all where the run has nothing of the kind, as queues of a flat protocol.
        """


class ModelMeasure(Measure):
    """A measure that looks at the final model on the clients' data, not at the tables alone."""

    def compute(self, run: LoadedRun) -> dict[str, float]:
        """Raises TypeError: it takes more than the tables."""
        raise TypeError(f"{type(self).__name__} needs the model: use `assess`")

    @abstractmethod
    def assess(
        self, run: LoadedRun, federation: Federation, rng: np.random.Generator
    ) -> dict[str, float]:
        """The figures by name; `rng` is for whatever is drawn."""
