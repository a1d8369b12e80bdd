"""How old models are when they arrive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.measures.base import Measure
from simfl.runfolder import LoadedRun

IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Staleness:
    """`versions[phi]` global versions were made of models that were phi versions old."""

    versions: IntArray

    @property
    def mean(self) -> float:
        """In versions."""
        return float(np.average(np.arange(self.versions.size), weights=self.versions))


def staleness_distribution(run: LoadedRun) -> Staleness:
    """Over all global versions, the stalest update of each."""
    return Staleness(np.bincount(run.rounds["staleness"]))


@dataclass(frozen=True)
class StalenessDistribution(Measure):
    """How many versions the server moved on between a model's download and its arrival."""

    def compute(self, run: LoadedRun) -> dict[str, float]:
        """mean, highest, and fresh_share of the versions that were made of current models."""
        found = staleness_distribution(run)
        if not found.versions.sum():
            return {}
        return {
            "mean": found.mean,
            "highest": float(found.versions.size - 1),
            "fresh_share": float(found.versions[0] / found.versions.sum()),
        }
