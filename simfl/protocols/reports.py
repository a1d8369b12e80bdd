"""What an algorithm says of the updates that a server aggregates, for the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simfl.algorithms.base import Algorithm
from simfl.protocols.arrivals import arrivals, lineage
from simfl.protocols.deliveries import Delivered
from simfl.protocols.state_ref import StateRef
from simfl.protocols.values import Values


def algorithm_report(
    values: Values, ref: StateRef, delivered: Delivered, shares: Sequence[float] | None = None
) -> dict[str, Any]:
    """The report of updates that `ref` is about to aggregate (`Values.aggregate`); {} if none.

    Learned numbers that enter the log: they pass the journalled door.
    """
    if type(values.algorithm).report is Algorithm.report:
        return {}
    arrived = arrivals(ref.version, delivered, shares)

    def make() -> dict[str, Any]:
        state = ref.value()
        updates = values.sound([one.update(state) for one in arrived])
        return values.asked.report(state, updates) if updates else {}

    return dict(values.know(("report", ref.key, lineage(arrived)), make))
