"""What servers expect of clients before they have seen any of them at work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.common.notices import Notice, notice
from simfl.decisions.feasibility import attainable_share
from simfl.protocols.details import known
from simfl.protocols.learned_values import LearnedValues
from simfl.protocols.state_ref import StateRef
from simfl.system.world import World


@dataclass(frozen=True, eq=False)
class Expectations:
    """What a dispatch of `edge_rounds` turns costs by what devices and links are registered with.

    Noise left out, plain training, the whole model in every message, radios awake, the highest
    clock. Per client: `cycles` of a turn's computation, so that its seconds are cycles / frequency;
    `turn_s` of a turn; `transfer_s` of a turn's messages. `latency_s` of a dispatch and
    `backhaul_s` of its messages to and from the cloud: per edge server and, last, for a flat
    server.
    """

    edge_rounds: int
    cycles: FloatArray
    turn_s: FloatArray
    transfer_s: FloatArray
    latency_s: FloatArray
    backhaul_s: FloatArray


def unknown(clients: int, edges: int) -> Expectations:
    """Nothing is expected."""
    of_clients, of_servers = np.full(clients, np.nan), np.full(edges + 1, np.nan)
    return Expectations(1, of_clients, of_clients, of_clients, of_servers, of_servers)


def expectations(
    world: World,
    values: LearnedValues,
    num_examples: IntArray,
    edge: IntArray,
    ref: StateRef,
    edge_rounds: int,
) -> Expectations:
    """Of a run whose dispatches consist of `edge_rounds` turns, at the state `ref`."""
    quiet, price = world.without_noise, values.tier_price(ref)
    clients = np.arange(world.num_clients)
    plan = quiet.plan_rounds(
        clients,
        0,
        values.examples(num_examples, ref.version),
        values.forward_flops,
        price.down_bytes,
        price.up_bytes,
        world.frequency_max_hz,
    )
    transfer_s = plan.download_s + plan.upload_s
    turn_s = transfer_s + plan.compute_s
    edges = np.arange(world.num_edges)
    backhaul_s = np.zeros(world.num_edges + 1)
    for size, uplink in ((price.down_bytes, False), (price.up_bytes, True)):
        if size:
            backhaul_s[:-1] += quiet.backhaul_transfer(edges, 0, size, uplink).duration_s
    longest_s = np.full(world.num_edges + 1, -np.inf)
    np.maximum.at(longest_s, edge, turn_s)
    longest_s[-1] = turn_s.max()
    latency_s = np.where(np.isinf(longest_s), np.nan, backhaul_s + edge_rounds * longest_s)
    return Expectations(
        edge_rounds, plan.compute_s * plan.frequency_hz, turn_s, transfer_s, latency_s, backhaul_s
    )


def attainability(
    owed_share: FloatArray, latency_s: FloatArray, concurrency: int
) -> tuple[dict[str, Any], list[Notice]]:
    """Whether edge servers of these latencies can get the participation that they are owed.

    Details for the log, and a warning where some cannot.
    """
    attainable = attainable_share(latency_s, concurrency)
    short = np.flatnonzero(owed_share > attainable)
    detail = {
        "unattainable": short,
        "owed_share": owed_share,
        "attainable_share": known(attainable),
        "latency_s": known(latency_s),
    }
    message = (
        f"edge servers {short.tolist()} may not get the participation that they are owed:"
        f" {concurrency} in flight are too many, or they are too slow"
    )
    warning = notice("unattainable_participation", message, short.size)
    return detail, [warning] if short.size else []
