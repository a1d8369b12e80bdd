"""The staleness of models when they arrive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from simfl.common.arrays import IntArray
from simfl.measures.base import Measure
from simfl.runs.runfolder import LoadedRun


@dataclass(frozen=True, eq=False)
class Staleness:
    """`updates[phi]` is the number of updates that were phi versions old when merged."""

    updates: IntArray

    @property
    def mean(self) -> float:
        """The mean staleness in versions."""
        return float(np.average(np.arange(self.updates.size), weights=self.updates))


def staleness_distribution(run: LoadedRun) -> Staleness:
    """The staleness of all updates (of clients or edge servers) that the cloud merged, from the
    log.

    Empty for a run without events.
    """
    merged = run.details("cloud_aggregate")
    if "updates" not in merged:
        return Staleness(np.zeros(1, dtype=np.int64))
    merged = merged[merged["cut_by"].isna()].dropna(subset="updates")
    each = merged.get("staleness_each", pd.Series(index=merged.index, dtype=object))
    alike = each.isna()
    of_alike = np.repeat(merged["staleness"][alike], merged["updates"][alike].astype(int))
    values = np.concatenate([of_alike, *each[~alike]]).astype(np.int64)
    return Staleness(np.bincount(values, minlength=1))


@dataclass(frozen=True)
class StalenessDistribution(Measure):
    """The number of new versions between a model's download and its arrival."""

    learned: ClassVar[bool] = False

    def compute(self, run: LoadedRun) -> dict[str, float]:
        """mean over all updates, highest, and fresh_share of updates of the current version.

        The share is NaN for a run without events.
        """
        if run.rounds.empty:
            return {}
        updates = staleness_distribution(run).updates
        return {
            "mean": run.mean_staleness,
            "highest": float(run.rounds["staleness_max"].max()),
            "fresh_share": float(updates[0] / updates.sum()) if updates.sum() else float("nan"),
        }
