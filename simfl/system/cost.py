"""The cost of an activity: seconds, and joules above idle power.

A row's total energy is idle power * duration + `active_j`. The idle part is added when the row is
logged, so that it is counted once per device and second. Fields are floats or arrays of one shape.
"""

from __future__ import annotations

from dataclasses import dataclass

from simfl.common.arrays import FloatArray


class MissingCost(ValueError):
    """A figure needed for a cost is missing; names owner and field. It never defaults to zero."""

    def __init__(self, field: str, owner: str = "") -> None:
        self.field = field
        self.owner = owner
        super().__init__(
            f"{owner + ': ' if owner else ''}no figure for {field}, the cost is unknown"
        )

    def of(self, owner: str) -> MissingCost:
        """The same error, naming the device that lacks the figure."""
        return MissingCost(self.field, owner)


@dataclass(frozen=True)
class ComputeCost:
    """Cost of a computation: seconds; switching and static joules, both beyond idle power."""

    duration_s: FloatArray
    dynamic_j: FloatArray
    static_j: FloatArray

    @property
    def active_j(self) -> FloatArray:
        """Joules beyond idle power."""
        return self.dynamic_j + self.static_j


@dataclass(frozen=True)
class TransferCost:
    """Cost of a transfer: seconds, the client end's joules beyond idle power, the network's joules.

    The client end is the lower one: the client on an access link, the edge server on a backhaul.
    """

    duration_s: FloatArray
    active_j: FloatArray
    network_j: FloatArray
