"""One dispatch of an edge server: download, rounds with its clients, upload to the cloud.

The cloud always gets a report: of an edge server that crashes when it is repaired, or when the
cloud gives it up; it has only its state at the last report. One without clients gives each round up
after the deadline. Neither has anything new, so nothing is merged. One that is dispatched while
broken begins once it works, from the cloud's state at that time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy

from simfl.common.arrays import IntArray
from simfl.protocols.deadline_policy import DeadlinePolicy
from simfl.protocols.run import Run
from simfl.protocols.servers import Crashed
from simfl.protocols.state_ref import StateRef
from simfl.protocols.wait_for import WaitFor


@dataclass(frozen=True)
class EdgeReport:
    """An edge server's state at the cloud (None: nothing new), and the state it started from."""

    edge: int
    state: StateRef | None
    downloaded_version: int
    round_number: int
    latency_s: float
    participants: int


def dispatch_edge(
    run: Run,
    edge: int,
    cloud_now: Callable[[], StateRef],
    kept: StateRef,
    round_number: int,
    edge_rounds: int,
    policy: DeadlinePolicy,
    wait_for: WaitFor,
    given_up_after_s: float = np.inf,
) -> Generator[simpy.Event, Any, EdgeReport]:
    """Dispatches an edge server with the state `kept`; returns its report.

    It starts from `cloud_now()` once it works: the cloud continues while it is repaired. If it
    crashes, the cloud gives it up `given_up_after_s` later, unless it is repaired before.
    """
    began_s, participants = run.clock.now_s, np.zeros(0, dtype=np.int64)
    yield from run.working(edge)
    cloud = cloud_now()
    state: StateRef | None = None
    try:
        yield from run.backhaul(edge, cloud, round_number, uplink=False)
        state = run.values.adopt(kept, cloud)
        for _ in range(edge_rounds):
            state, clients = yield from _round(run, edge, state, round_number, policy, wait_for)
            participants = np.union1d(participants, clients)
        if participants.size:
            yield from run.backhaul(edge, cloud, round_number, uplink=True)
        else:
            state = None
        run.reported(edge)
    except Crashed as crash:
        state, participants = None, participants[:0]
        run.crashed(edge)
        if given_up_after_s == 0.0:
            run.noticed_at_once()
        with run.clock.waiting(f"edge-{edge}", "its repair"):
            yield run.clock.until(min(crash.works_s, run.clock.now_s + given_up_after_s))
    latency_s = run.clock.now_s - began_s
    return EdgeReport(edge, state, cloud.version, round_number, latency_s, participants.size)


def _round(
    run: Run,
    edge: int,
    state: StateRef,
    round_number: int,
    policy: DeadlinePolicy,
    wait_for: WaitFor,
) -> Generator[simpy.Event, Any, tuple[StateRef, IntArray]]:
    """One round of an edge server; returns its next state and the contributing clients."""
    members, wait_s = run.members(edge), policy.deadline_s
    chosen = yield from run.select(state, members, round_number, edge, wait_s, wait_for)
    if not chosen.size:
        return state, chosen
    delivered = yield from run.client_rounds(chosen, state, round_number, edge, policy)
    if run.arrived(delivered):
        state = yield from run.aggregate(state, delivered, round_number, edge)
    return state, delivered.clients
