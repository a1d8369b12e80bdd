"""Rows of messages that clients receive beside their turns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.eventlog import KIND_INDEX, Actors
from simfl.eventrows import Columns, join_rows, make_rows
from simfl.protocols.turn_rows import transfer_detail
from simfl.system.cost import WireTransfer

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


def message_rows(
    actors: Actors,
    receivers: IntArray,
    start_s: FloatArray,
    message: WireTransfer,
    power_idle_w: FloatArray,
    **about: Any,
) -> Columns:
    """One download per receiver, booked to it, and what the network between spends.

    All arrays have one entry per receiver; `about` are further columns of the log.
    """
    end_s = start_s + message.duration_s
    spent = (message.active_j, message.attempts, message.lost_bytes)
    columns = [column.tolist() for column in spent]
    rows = make_rows(
        receivers.size,
        kind=KIND_INDEX["download"],
        actor=receivers,
        start_s=start_s,
        time_s=end_s,
        duration_s=message.duration_s,
        energy_j=power_idle_w * message.duration_s + message.active_j,
        extra_j=message.active_j,
        bytes=message.wire_bytes * ~message.failed,
        lost_bytes=message.lost_bytes,
        detail=[transfer_detail(*one) for one in zip(*columns, strict=True)],
        **about,
    )
    network_j = float(message.network_j.sum())
    if not network_j:
        return rows
    last_s = float(end_s.max())
    network = make_rows(
        1,
        kind=KIND_INDEX["network"],
        actor=actors.network,
        start_s=float(start_s.min()),
        time_s=last_s,
        duration_s=last_s - float(start_s.min()),
        energy_j=network_j,
        extra_j=network_j,
        **about,
    )
    return join_rows([rows, network])
