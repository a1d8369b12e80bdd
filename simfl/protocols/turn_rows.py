"""The rows of the log that turns leave: waiting, download, compute, upload."""

from __future__ import annotations

from typing import Any

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.eventlog.kinds import KIND_INDEX
from simfl.eventlog.rows import Rows, make_rows, take_rows
from simfl.protocols.details import as_json
from simfl.system.presence import Mishap
from simfl.system.turn_plan import TurnPlan

QUERY = '{"query": true}'


def mishap_row(mishap: Mishap) -> dict[str, Any]:
    """What befalls a client in mid-turn, as a row that takes no time."""
    detail = {"stage": mishap.stage, "then": "goes_on" if mishap.goes_on else "ends"}
    return {
        "kind": mishap.cause,
        "actor": mishap.client,
        "time_s": mishap.time_s,
        "value": mishap.lasts_s,
        "detail": as_json(detail),
    }


def turn_rows(
    clients: IntArray,
    plan: TurnPlan,
    times_s: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    idle_w: FloatArray,
    *,
    edge: int,
    version: int,
    round_number: int,
    detailed: bool,
    query: bool,
) -> Rows:
    """Download, compute and upload of each client, between `times_s`.

    No message leaves no row, and a download that failed is followed by none. With `query` the
    details say that this is no training turn; without `detailed` the rows are only for the books.
    """
    count, received = clients.size, ~plan.download_failed
    nothing, unknown = np.zeros(count), np.full(count, np.nan)
    active_j = np.concatenate([plan.download_j, plan.compute_j, plan.upload_j])
    duration_s = np.concatenate([plan.download_s, plan.compute_s, plan.upload_s])
    arrived = np.concatenate(
        [plan.down_bytes * received, nothing, plan.up_bytes * ~plan.upload_failed]
    )
    typed: dict[str, Any] = {}
    if detailed:
        none = np.full(count, -1)
        typed = {
            "active_j": active_j,
            "attempts": np.concatenate([plan.download_attempts, none, plan.upload_attempts]),
            "detail": QUERY if query else None,
        }
        if plan.compute_tail_j.any():
            typed["tail_j"] = np.concatenate([nothing, plan.compute_tail_j, nothing])
        for name in ("cycles", "dynamic_j", "static_j", "frequency_hz"):
            typed[name] = np.concatenate([unknown, getattr(plan, name), unknown])
    rows = make_rows(
        3 * count,
        kind=np.repeat([KIND_INDEX[kind] for kind in ("download", "compute", "upload")], count),
        actor=np.tile(clients, 3),
        start_s=np.concatenate(times_s[:3]),
        time_s=np.concatenate(times_s[1:]),
        duration_s=duration_s,
        energy_j=np.tile(idle_w, 3) * duration_s + active_j,
        extra_j=active_j,
        bytes=arrived,
        lost_bytes=np.concatenate([plan.down_lost_bytes, nothing, plan.up_lost_bytes]),
        edge=edge,
        version=version,
        round=round_number,
        **typed,
    )
    happened = np.concatenate([plan.down_bytes > 0, received, (plan.up_bytes > 0) & received])
    return rows if happened.all() else take_rows(rows, happened)


def network_row(
    plan: TurnPlan, actor: int, now_s: float, end_s: float, edge: int, version: int, number: int
) -> Rows | None:
    """What the network between the ends spends on a cohort's messages; None where it is nothing."""
    energy_j = float(
        (plan.download_network_j + plan.upload_network_j * ~plan.download_failed).sum()
    )
    if not energy_j:
        return None
    return make_rows(
        1,
        kind=KIND_INDEX["network"],
        actor=actor,
        start_s=now_s,
        time_s=end_s,
        duration_s=end_s - now_s,
        energy_j=energy_j,
        extra_j=energy_j,
        edge=edge,
        version=version,
        round=number,
    )


def computed(plan: TurnPlan, place: int, share: float = 1.0) -> dict[str, float]:
    """What the row of a computation says of what was done of it, one of the plan's."""
    return {
        "active_j": share * float(plan.compute_j[place]),
        "tail_j": share * float(plan.compute_tail_j[place]),
        "cycles": share * float(plan.cycles[place]),
        "dynamic_j": share * float(plan.dynamic_j[place]),
        "static_j": share * float(plan.static_j[place]),
        "frequency_hz": float(plan.frequency_hz[place]),
    }
