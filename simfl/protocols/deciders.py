"""The decision rules of a run."""

from __future__ import annotations

from dataclasses import dataclass

from simfl.decisions.base import Allocation, Estimator, Scheduling, Selection, Staleness


@dataclass(frozen=True)
class Deciders:
    """One rule per kind of decision; association has been decided when the run begins."""

    selection: Selection
    scheduling: Scheduling
    allocation: Allocation
    staleness: Staleness
    estimator: Estimator
