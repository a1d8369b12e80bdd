"""Messages in the log: of single actors, and of clients that receive one beside their turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.eventlog.kinds import KIND_INDEX, Actors
from simfl.eventlog.log import EventLog
from simfl.eventlog.rows import Rows, join_rows, make_rows
from simfl.system.cost import WireTransfer


def book_message(
    log: EventLog,
    actor: int,
    start_s: float,
    end_s: float,
    spent_j: tuple[float, float],
    *,
    received: int,
    lost: int,
    uplink: bool,
    about: Mapping[str, int],
    typed: Mapping[str, Any],
    in_flight: int = 0,
) -> None:
    """Enter a message of `actor`, its bytes, and what the network between the ends spends.

    `spent_j` are the actor's joules beyond its idle power and the network's; `about` are further
    columns of all rows, and `typed` of the message's. Of `in_flight` bytes nobody will know in this
    run what becomes of them.
    """
    active_j, network_j = spent_j
    log.row(
        "upload" if uplink else "download",
        actor,
        end_s,
        start_s=start_s,
        energy_j=float(log.accounts.power_idle_w[actor]) * (end_s - start_s) + active_j,
        extra_j=active_j,
        bytes=received,
        lost_bytes=lost,
        **{"active_j": active_j, **typed},
        **about,
    )
    log.accounts.messages.send(
        np.array([actor]),
        np.array([start_s]),
        np.array([np.inf if in_flight else end_s]),
        np.array([received + lost + in_flight]),
        start_s,
        uplink=uplink,
    )
    if network_j:
        log.row(
            "network",
            log.actors.network,
            end_s,
            start_s=start_s,
            energy_j=network_j,
            extra_j=network_j,
            **about,
        )


def message_rows(
    actors: Actors,
    receivers: IntArray,
    start_s: FloatArray,
    message: WireTransfer,
    power_idle_w: FloatArray,
    unmet_j: FloatArray,
    **about: Any,
) -> Rows:
    """One download per receiver, booked to it, and what the network between spends.

    All arrays have one entry per receiver; `unmet_j` is what empty batteries did not give. `about`
    are further columns of the log.
    """
    end_s = start_s + message.duration_s
    rows = make_rows(
        receivers.size,
        kind=KIND_INDEX["download"],
        actor=receivers,
        start_s=start_s,
        time_s=end_s,
        duration_s=message.duration_s,
        energy_j=power_idle_w * message.duration_s + message.active_j - unmet_j,
        extra_j=message.active_j - unmet_j,
        bytes=message.wire_bytes * ~message.failed,
        lost_bytes=message.lost_bytes,
        active_j=message.active_j,
        attempts=message.attempts,
        unmet_j=unmet_j,
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
