"""All that a plan says of each client, so that two plans can be compared client by client."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from simfl.system.messages import Transmission
from simfl.system.round_plan import RoundPlan
from simfl.system.segments import Segments

MESSAGE = (
    "wire_bytes",
    "attempts",
    "failed",
    "network_j",
    "since_last_attempt_s",
    "duration_s",
    "active_j",
    "flow_s",
    "promotion_j",
    "tail_j",
    "lost_bytes",
)


def figures(plan: RoundPlan) -> dict[str, NDArray[np.generic]]:
    """Every column by its name, one entry per client; those of messages as `upload.attempts`."""
    found: dict[str, NDArray[np.generic]] = {}
    for field in fields(plan):
        value = getattr(plan, field.name)
        if isinstance(value, Transmission):
            for name in MESSAGE:
                found[f"{field.name}.{name}"] = getattr(value, name)
        elif not isinstance(value, Segments):
            found[field.name] = value
    found["active_j"] = plan.active_j
    return found


def happening(segments: Segments, place: int) -> list[tuple[int, int, float, float, float]]:
    """One client's segments: stage, kind, seconds, joules and those of the radio's tail.

    Other clients' segments, in which this one takes no part, are left out; so are its own waits
    that take nothing, which a table has only if they take somebody something.
    """
    columns = (
        segments.stage,
        segments.kind,
        *(getattr(segments, name)[:, place] for name in ("seconds", "joules", "tail_j")),
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    there = segments.happens[:, place].tolist()
    return [row for row, happens in zip(rows, there, strict=True) if happens and any(row[2:])]
