"""The cost of an activity: seconds, and joules above idle power.

A row's full energy is idle power * duration + `active_j`; whoever books the row adds the idle part,
so that it is counted once per device and second. Fields are floats or arrays of one shape.
"""

from __future__ import annotations

from dataclasses import dataclass

from simfl.common.arrays import BoolArray, FloatArray, IntArray


class MissingCost(ValueError):
    """A figure that a cost needs is not given; names owner and field. Never a silent zero."""

    def __init__(self, field: str, owner: str = "") -> None:
        self.field = field
        self.owner = owner
        super().__init__(
            f"{owner + ': ' if owner else ''}no figure for {field}, the cost is unknown"
        )

    def of(self, owner: str) -> MissingCost:
        """The same gap, with the device that has it."""
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


@dataclass(frozen=True)
class WireTransfer(TransferCost):
    """A message's cost over all its attempts, and the bytes that crossed the link for it.

    `wire_bytes` is the message's size after the codec, `attempts` how often it was sent (0: there
    was no message), `lost_bytes` what was sent in vain: attempts * wire_bytes = lost_bytes plus
    wire_bytes where the message arrived. `failed` says that it never did. `promotion_j` is the part
    of `active_j` that waking the radio took, `since_last_attempt_s` how long before the
    end the last attempt was over: what a sender waits before it gives up.
    """

    wire_bytes: IntArray
    attempts: IntArray
    lost_bytes: IntArray
    failed: BoolArray
    promotion_j: FloatArray
    since_last_attempt_s: FloatArray
