"""The durations that servers expect of clients before observing any."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.common.notices import Notice, notice
from simfl.decisions.feasibility import attainable_share
from simfl.protocols.details import known
from simfl.protocols.plain_rounds import ASLEEP, PlainRounds
from simfl.system.server_id import CLOUD, ServerId

SLOWEST = 1000
"""The number of slowest clients that can decide the time of a cohort without contention."""


@dataclass(frozen=True, eq=False)
class Expectations:
    """The expected cost of a dispatch of `edge_rounds` rounds, from registered hardware.

    It assumes no noise, plain training, the whole model in every message, the highest frequency,
    and radios that have not sent yet. Per client, with a dedicated link: `cycles` of a round's
    computation at the highest frequency, times that frequency; `round_s` of a round; `transfer_s`
    of a round's messages. Per edge server and, last, for a flat server: `latency_s` of a dispatch
    of its slowest clients in parallel, as many as a round should have, and `backhaul_s` of its
    messages to and from the cloud. `detail` has the effect of contention and sleeping radios; None:
    none.
    """

    edge_rounds: int
    cycles: FloatArray
    round_s: FloatArray
    transfer_s: FloatArray
    latency_s: FloatArray
    backhaul_s: FloatArray
    detail: dict[str, Any] | None = None

    @property
    def known(self) -> bool:
        """Whether these are expectations at all (`unknown`)."""
        return not np.isnan(self.cycles[0])


def unknown(clients: int, edges: int) -> Expectations:
    """No expectations."""
    of_clients, of_servers = np.full(clients, np.nan), np.full(edges + 1, np.nan)
    return Expectations(1, of_clients, of_clients, of_clients, of_servers, of_servers)


def expectations(
    plain_rounds: PlainRounds, edge_rounds: int, together: Callable[[int], int]
) -> Expectations:
    """The expectations for a run with `edge_rounds` rounds per dispatch.

    `together` gives, for a number of clients, how many are in flight at the same time.
    """
    quiet = plain_rounds.quiet
    world, clients = quiet.world, np.arange(plain_rounds.world.num_clients)
    plan = quiet.plan(
        clients, np.zeros_like(clients), world.frequency_max_hz, np.full(clients.size, ASLEEP)
    )
    transfer_s = plan.download_s + plan.upload_s
    round_s = transfer_s + plan.compute_s
    cohorts = {}
    for server, members in _members(plain_rounds.edge, world.num_edges, flat=plain_rounds.flat):
        size = together(members.size)
        if not quiet.contended:
            size = min(size, SLOWEST)
        cohorts[server] = members[np.argsort(-round_s[members], kind="stable")[:size]]
    latency_s, backhaul_s = np.full((2, world.num_edges + 1), np.nan)
    backhaul_s[:] = 0.0
    for server, cohort in cohorts.items():
        latency_s[server.number], backhaul_s[server.number] = _dispatch_s(
            quiet, server, cohort, edge_rounds
        )
    detail = None
    if quiet.contended or quiet.backhaul_contended or quiet.sleeps:
        detail = _detail(quiet, cohorts, edge_rounds, latency_s)
    return Expectations(
        edge_rounds,
        plan.compute_s * plan.frequency_hz,
        round_s,
        transfer_s,
        latency_s,
        backhaul_s,
        detail,
    )


def _members(edge: IntArray, edges: int, *, flat: bool) -> list[tuple[ServerId, IntArray]]:
    """The clients of each server that has any."""
    if flat:
        return [(CLOUD, np.arange(edge.size))]
    several = [(ServerId(one), np.flatnonzero(edge == one)) for one in range(edges)]
    return [(server, members) for server, members in several if members.size]


def _dispatch_s(
    quiet: PlainRounds, server: ServerId, cohort: IntArray, edge_rounds: int, idle_s: float = ASLEEP
) -> tuple[float, float]:
    """Seconds of a dispatch with radios last used `idle_s` ago, and of its backhaul."""
    world = quiet.world
    radio_idle_s = np.full(world.num_clients, idle_s)
    rounds_s = float(
        quiet.latency_s(
            cohort[None], world.frequency_max_hz, radio_idle_s, edge_rounds, 0.0, server
        )[0]
    )
    backhaul_s = quiet.around_s(server, idle_s, rounds_s) if server.is_edge else 0.0
    return backhaul_s + rounds_s, backhaul_s


def _detail(
    quiet: PlainRounds, cohorts: dict[ServerId, IntArray], edge_rounds: int, latency_s: FloatArray
) -> dict[str, Any]:
    """How far expectations would be off without contention, or with radios awake."""
    found: dict[str, list[float]] = {
        "latency_s": [float(latency_s[each.number]) for each in cohorts]
    }
    if quiet.sleeps:
        awake = [_dispatch_s(quiet, *one, edge_rounds, 0.0)[0] for one in cohorts.items()]
        found["awake_s"] = awake
    if quiet.contended:
        alone = quiet.with_links_of_their_own
        found["alone_s"] = [_dispatch_s(alone, *one, edge_rounds)[0] for one in cohorts.items()]
        for name, way in (("round_alone_s", alone), ("round_s", quiet)):
            found[name] = [_mean_round_s(way, *one) for one in cohorts.items()]
    if quiet.backhaul_contended:
        servers = np.array([server.number for server in cohorts])
        asleep = np.full(servers.size, ASLEEP)
        for name, together in (("backhaul_alone_s", False), ("backhaul_s", True)):
            down_s = quiet.backhaul_s(servers, asleep, uplink=False, together=together)
            found[name] = down_s.tolist()
    return {
        "servers": ["cloud" if one == CLOUD else str(one) for one in cohorts],
        "together": [int(cohort.size) for cohort in cohorts.values()],
        **found,
    }


def _mean_round_s(way: PlainRounds, server: ServerId, cohort: IntArray) -> float:
    """The mean first round of a cohort's clients, as the estimate for each of them."""
    world = way.world
    asleep, numbers = np.full((1, cohort.size), ASLEEP), np.zeros((1, cohort.size), dtype=np.int64)
    about = cohort[None], numbers, world.frequency_max_hz, asleep
    return float(way.rounds_s(*about, server)[0].mean())


def attainability(
    owed_share: FloatArray, latency_s: FloatArray, concurrency: int
) -> tuple[dict[str, Any], list[Notice]]:
    """Whether edge servers with these latencies can get their owed participation.

    Returns details for the log, and a warning if some cannot.
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
