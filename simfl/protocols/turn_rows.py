"""The rows of the log that turns leave: waiting, download, compute, upload."""

from __future__ import annotations

from typing import Any

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.eventlog.kinds import KIND_INDEX
from simfl.eventlog.rows import Columns, make_rows, take_rows
from simfl.protocols.details import as_json
from simfl.system.presence import Mishap
from simfl.system.turn_plan import TurnPlan

QUERY = ', "query": true'


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
) -> Columns:
    """Download, compute and upload of each client, between `times_s`.

    No message leaves no row, and a download that failed is followed by none. With `query` the
    details say that this is no training turn; without `detailed` there are none.
    """
    count, received = clients.size, ~plan.download_failed
    nothing = np.zeros(count)
    active_j = np.concatenate([plan.download_j, plan.compute_j, plan.upload_j])
    duration_s = np.concatenate([plan.download_s, plan.compute_s, plan.upload_s])
    arrived = np.concatenate(
        [plan.down_bytes * received, nothing, plan.up_bytes * ~plan.upload_failed]
    )
    detail: list[str | None] = [None] * (3 * count)
    if detailed:
        mark = QUERY if query else ""
        down = (plan.download_j, plan.download_attempts, plan.down_lost_bytes)
        up = (plan.upload_j, plan.upload_attempts, plan.up_lost_bytes)
        detail = [*_transfer_detail(*down, mark), *compute_detail(plan, mark)]
        detail += _transfer_detail(*up, mark)
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
        frequency_hz=np.concatenate([nothing * np.nan, plan.frequency_hz, nothing * np.nan]),
        edge=edge,
        version=version,
        round=round_number,
        detail=detail,
    )
    happened = np.concatenate([plan.down_bytes > 0, received, (plan.up_bytes > 0) & received])
    return rows if happened.all() else take_rows(rows, happened)


def network_row(
    plan: TurnPlan, actor: int, now_s: float, end_s: float, edge: int, version: int, number: int
) -> Columns | None:
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


def transfer_detail(active_j: float, attempts: int, lost_bytes: int, mark: str = "") -> str:
    """The detail of a message, with how often it was sent where once was not enough."""
    again = f', "attempts": {attempts}, "lost_bytes": {lost_bytes}' if lost_bytes else ""
    return f'{{"active_j": {active_j!r}{again}{mark}}}'


def _transfer_detail(
    active_j: FloatArray,
    attempts: IntArray,
    lost_bytes: IntArray,
    mark: str,
) -> list[str]:
    if not lost_bytes.any():
        text = f'{{{{"active_j": {{!r}}{mark}}}}}'.format
        return list(map(text, active_j.tolist()))
    columns = (active_j.tolist(), attempts.tolist(), lost_bytes.tolist())
    return [transfer_detail(*one, mark) for one in zip(*columns, strict=True)]


def compute_detail(plan: TurnPlan, mark: str) -> list[str]:
    """The details of computations, one per client; `mark` is `QUERY` or nothing."""
    columns = [plan.cycles, plan.dynamic_j, plan.static_j]
    tail = ""
    if plan.compute_tail_j.any():
        columns.append(plan.compute_tail_j)
        tail = ', "tail_j": {!r}'
    text = '{{"cycles": {!r}, "dynamic_j": {!r}, "static_j": {!r}' + tail + mark + "}}"
    return list(map(text.format, *(column.tolist() for column in columns)))
