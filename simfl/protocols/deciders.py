"""The decision rules of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simfl.common.arrays import IntArray
from simfl.decisions.base import Allocation, Estimator, Scheduling, Selection, Staleness


@dataclass(frozen=True, eq=False)
class AllocationByGroup:
    """Allocation rules of single groups; `group` is each client's group."""

    rules: Mapping[int, Allocation]
    group: IntArray


@dataclass(frozen=True)
class Deciders:
    """One rule per kind of decision; association is decided before the run begins.

    Clients in a group with its own allocation follow that.
    """

    selection: Selection
    scheduling: Scheduling
    allocation: Allocation
    staleness: Staleness
    estimator: Estimator
    allocation_by_group: AllocationByGroup | None = None
