"""Where training stands, for algorithms that say themselves when it is over."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from simfl.algorithms.base import Standing
from simfl.protocols.state_ref import StateRef
from simfl.protocols.values import Values


def standing_of(values: Values, ref: StateRef) -> Standing | None:
    """The standing at a version; None of an algorithm that has none.

    A learned number that decides something: it passes the journalled door.
    """
    if not values.algorithm.stands:
        return None

    def make() -> dict[str, Any]:
        return asdict(values.asked.standing(ref.value(), values.evaluator))

    return Standing(**values.know(("standing", ref.key), make))
