"""The decision rules of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simfl.common.arrays import IntArray
from simfl.decisions.base import Allocation, Estimator, Scheduling, Selection, Staleness


@dataclass(frozen=True, eq=False)
class AllocationByGroup:
    """Rules of their own for the clocks of some groups; `group` is each client's."""

    rules: Mapping[int, Allocation]
    group: IntArray


@dataclass(frozen=True)
class Deciders:
    """One rule per kind of decision; association has been decided when the run begins.

    Clients whose group has an allocation of its own go by that.
    """

    selection: Selection
    scheduling: Scheduling
    allocation: Allocation
    staleness: Staleness
    estimator: Estimator
    allocation_by_group: AllocationByGroup | None = None
