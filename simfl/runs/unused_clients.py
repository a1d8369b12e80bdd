"""Warnings of clients that a rule left out systematically (docs/warnings.md)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from simfl.assembly.simulation import Simulation
from simfl.common.arrays import FloatArray, IntArray
from simfl.common.notices import Notice, notice
from simfl.protocols.run import Run
from simfl.system.failures import Failures


def never_took_part(simulation: Simulation, one: Run) -> Iterator[Notice]:
    """Clients without any merged update, although random selection would have left none out.

    With n (ln N + 5) rounds of n randomly drawn clients, at each server with N clients, somebody is
    left out in fewer than one of 100 runs. A server without any merged update is not due to chance
    either, once all N clients together had N (ln N + 5) rounds.
    """
    rounds = one.observations.participations
    nothing_merged = rounds <= one.observations.dropped
    server = one.edge if simulation.protocol.hierarchical else np.zeros_like(one.edge)
    clients, enough = np.bincount(server), math.log(rounds.size) + 5.0
    judged = np.bincount(server, weights=rounds) >= enough * clients
    if rounds.sum() >= enough * rounds.size:
        judged |= np.bincount(server, weights=nothing_merged) == clients
    missing = nothing_merged & judged[server]
    left_out, late = int(missing.sum()), int((missing & (rounds > 0)).sum())
    if left_out:
        message = f"{left_out} of {rounds.size} clients never took part, in {rounds.sum()} rounds"
        if late:
            message += f": of {late} every update was dropped, too late or in rounds given up"
        if more := int(nothing_merged.sum()) - left_out:
            message += f"; {more} more may be left out by chance: their edge servers had few rounds"
        yield notice("never_took_part", message, left_out)


FEWEST_FINISHED = 5
"""Fewer finished rounds of a kind of client may have been dropped by chance."""


def always_dropped(simulation: Simulation, one: Run) -> Iterator[Notice]:
    """Every finished round of a kind of client (its device and link) was dropped.

    Other clients' rounds were not: no version has an update of these clients.
    """
    world, dropped = simulation.world, one.observations.dropped
    finished = one.observations.participations
    kinds = world.device_index * len(world.link_names) + world.link_index
    rounds, lost = (np.bincount(kinds, weights=one_of) for one_of in (finished, dropped))
    found = np.flatnonzero((rounds >= FEWEST_FINISHED) & (lost == rounds))
    if not found.size or dropped.sum() == finished.sum():
        return
    told = []
    for kind in found.tolist():
        device, link = divmod(kind, len(world.link_names))
        name = f"{world.devices[device].name} on {world.link_names[link]}"
        told.append(f"{name} ({(kinds == kind).sum()} clients, {rounds[kind]:.0f} rounds)")
    message = (
        "every finished round was dropped, too late or in rounds given up, of the clients with"
        f" {', '.join(told)}: no version has an update of theirs"
    )
    yield notice("always_dropped", message, int(rounds[found].sum()))


LEAST_ROUNDS = 0.5
"""An edge server that is in fewer of the rounds counts as left out."""

MOST_BROKEN = 0.5
"""An edge server that is broken for more of the run is left out for that reason."""

_LOOKS = 1000
"""At how many times edge servers are looked at, to estimate how long they were broken."""


def _broken_share(simulation: Simulation, edges: IntArray, horizon_s: float) -> FloatArray:
    """The share of a run in which each of these edge servers was broken."""
    faults = simulation.parts[("population",)].faults.edge_servers
    failures = Failures(faults, simulation.streams, "faults.edge_server")
    times_s = (np.arange(_LOOKS) + 0.5) / _LOOKS * horizon_s
    works = [failures.at(edges, time_s)[0] for time_s in times_s.tolist()]
    share: FloatArray = 1.0 - np.mean(works, axis=0)
    return share


def edge_servers_left_out(simulation: Simulation, one: Run) -> Iterator[Notice]:
    """Edge servers that are missing in most rounds, or that the scheduling never chose.

    A scheduling rule is told if random choice would have left none out: with M (ln M + 5) random
    choices among M servers, one is left out in fewer than one of 100 runs.
    """
    in_rounds = one.aggregation.in_rounds[list(one.edges)]
    rounds = len(one.publications.rounds)
    rare = in_rounds < LEAST_ROUNDS * rounds
    if simulation.protocol.gives_up_edge_servers and rare.any():
        message = (
            f"{rare.sum()} of {rare.size} edge servers brought a model in fewer than half of the"
            f" {rounds} rounds, one of them in {in_rounds.min()}, because they were broken"
            " (faults.edge_servers) or had no clients: the model is mostly that of the others"
        )
        yield notice("edge_servers_left_out", message, int(rare.sum()))
    _, picked = one.owed
    servers = len(one.edges)
    left_out = servers - np.unique(picked).size
    if left_out and picked.size >= servers * (math.log(servers) + 5.0):
        rule = simulation.scenario.decisions.scheduling.name
        message = (
            f"after the first round {rule} never dispatched {left_out} of {servers} edge servers,"
            f" in {picked.size} dispatches: apart from that round, the figures"
            f" cover only the clients of the other {servers - left_out}"
        )
        never = np.setdiff1d(np.array(one.edges), picked)
        broken = _broken_share(simulation, never, one.clock.now_s)
        if broken.max() >= MOST_BROKEN:
            mostly = broken >= MOST_BROKEN
            message += (
                f"; {mostly.sum()} of these {left_out} were broken for at least"
                f" {broken[mostly].min():.0%} of the run (faults.edge_servers), and a dispatch"
                " waits for the repair"
            )
        yield notice("edge_servers_left_out", message, left_out)
