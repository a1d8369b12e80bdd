"""The interface of every measure: a finished run into named numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod

from simfl.runfolder import LoadedRun


class Measure(ABC):
    """Computed from a run's tables when it has ended, and kept in its manifest."""

    @abstractmethod
    def compute(self, run: LoadedRun) -> dict[str, float]:
        """The figures by name, units in the names; NaN where the run cannot tell.

        No figures at all where the run has nothing of the kind, as queues of a flat protocol.
        """
