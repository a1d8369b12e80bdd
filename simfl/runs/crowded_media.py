"""Warnings about media that could not have carried what was sent over them (docs/warnings.md)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simfl.assembly.simulation import Simulation
from simfl.common.arrays import FloatArray
from simfl.common.notices import Notice, notice
from simfl.common.part_name import called
from simfl.common.quantity import quantity
from simfl.eventlog.kinds import KIND_INDEX
from simfl.protocols.run import Run
from simfl.system.world import World

MOST_AIRTIME = 0.5
"""A channel that is busy for more of the time is crowded: queues grow as 1 / (1 - share)."""

MOST_SHARED = 1.5
"""A channel that is on air for more of the time, in one direction, is more than one channel."""


def crowded_channels(simulation: Simulation, one: Run) -> Iterator[Notice]:
    """Clients that get more of a channel together than there is.

    With `dedicated` each gets the full rate of its channel, which a Wi-Fi or LoRa link would share:
    told if they keep it busy most of the time. Capacities and queues that were set too large are
    told if one channel would be on air, in one direction, for longer than the run. Rates vary from
    message to message, so by half of its time.
    """
    world, now_s, rule = simulation.world, one.clock.now_s, simulation.world.access_sharing
    # A divided band carries more than its rate, and rules of air time keep within it.
    if not now_s or rule.cuts_band or rule.half_duplex:
        return
    shared = np.array([link.shared_channel and not link.needs_places for link in world.links])
    on_air_s: list[FloatArray] = []
    for uplink in (True, False):
        rate_bps = np.array([link.rate_bps(uplink) for link in world.links])[world.link_index]
        rate_bps = rate_bps * world.rate_factors(uplink=uplink)
        on_air_s.append(_client_bits(simulation, one, uplink=uplink) / rate_bps)
    point = simulation.edge if simulation.protocol.hierarchical else world.home_edge
    channel = point * len(world.links) + world.link_index
    own = shared[world.link_index]
    by_way = [np.bincount(channel, weights=np.where(own, each_s, 0.0)) for each_s in on_air_s]
    busy_s = np.maximum(*by_way) if rule.contended else sum(by_way, np.zeros(1))
    crowded = np.flatnonzero(busy_s > (MOST_SHARED if rule.contended else MOST_AIRTIME) * now_s)
    if crowded.size:
        worst = int(np.argmax(busy_s))
        clients = np.flatnonzero(channel == worst)
        how = f"with {called(rule)}" if rule.contended else "each at its full rate"
        message = (
            f"{clients.size} clients have {world.link_names[world.link_index[clients[0]]]} at one"
            f" access point, {how}: their messages would keep a channel on air"
            f" for {busy_s[worst]:.3g} s of the run's {now_s:.3g} s"
        )
        yield notice("crowded_channel", message, crowded.size)


def crowded_backhaul(simulation: Simulation, one: Run) -> Iterator[Notice]:
    """Clients of an access point that each get the full rate of the line behind it."""
    world, now_s = simulation.world, one.clock.now_s
    if not now_s or not world.behind_backhaul or _is_divided(world):
        return
    busy_s: FloatArray = np.zeros(world.num_edges)
    for uplink in (True, False):
        bits = np.bincount(
            world.home_edge,
            weights=_client_bits(simulation, one, uplink=uplink),
            minlength=world.num_edges,
        )
        busy_s = np.maximum(busy_s, bits / world.backhaul.rate_bps(uplink))
    crowded = np.flatnonzero(busy_s > MOST_AIRTIME * now_s)
    if crowded.size:
        worst = int(np.argmax(busy_s))
        clients = int((world.home_edge == worst).sum())
        rate = quantity(min(world.backhaul.rate_bps(uplink) for uplink in (True, False)), "bit/s")
        message = (
            f"{clients} clients behind one access point each have the whole backhaul, {rate}:"
            f" their messages would keep one such line busy for {busy_s[worst]:.3g} s of the run's"
            f" {now_s:.3g} s"
        )
        yield notice("crowded_backhaul", message, crowded.size)


def _is_divided(world: World) -> bool:
    """Whether the line behind the access points has a capacity for all together."""
    of_access = getattr(world.access_sharing, "backhaul_bps", None)
    return world.backhaul_sharing.contended or of_access is not None


def _client_bits(simulation: Simulation, one: Run, *, uplink: bool) -> FloatArray:
    """Bits of each client's messages in a direction, those of lost attempts included."""
    of_kind = slice(simulation.world.num_clients), KIND_INDEX["upload" if uplink else "download"]
    bits: FloatArray = 8.0 * (one.accounts.bytes[of_kind] + one.accounts.lost_bytes[of_kind])
    return bits
