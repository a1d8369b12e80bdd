"""Semi-asynchronous hierarchical learning (FedCure, Algorithm 2 and the card's section 2).

Below an edge server clients are synchronous: it waits for all of them, aggregates, and does so
`edge_rounds` times before it reports. Between edge servers and cloud it is asynchronous: the cloud
merges each model as it arrives, with a share that falls with its staleness, and dispatches again.

At the start all edge servers are dispatched; afterwards at most `concurrency` are in flight (the
card's A1): the first arrivals trigger no dispatch, each later one triggers exactly one, chosen by
the scheduling rule among the idle ones.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
import simpy

from simfl.protocols.base import Protocol
from simfl.protocols.clock import Mailbox, Process
from simfl.protocols.patience import Patience
from simfl.protocols.run import Run
from simfl.protocols.state_ref import StateRef


@dataclass(frozen=True)
class Arrival:
    """An edge server's state at the cloud, and the cloud version that it started from."""

    edge: int
    state: StateRef
    downloaded_version: int
    round_number: int
    latency_s: float
    participants: int


@dataclass(frozen=True)
class SemiAsynchronous(Protocol):
    """Client-edge synchronous, edge-cloud asynchronous."""

    name: ClassVar[str] = "semi_asynchronous"
    hierarchical: ClassVar[bool] = True

    edge_rounds: Annotated[int, ">= 1", "edge aggregations per dispatch (tau_e)"] = 12
    concurrency: Annotated[int, ">= 1", "edge servers in flight after the start (C)"] = 2

    patience: Annotated[Patience, "how long an edge server waits for its clients"] = field(
        default_factory=Patience
    )

    def process(self, run: Run) -> Process:
        """The cloud: merge what arrives, publish, dispatch the next."""
        cloud = run.begin("cloud")
        run.expect(cloud, edge_rounds=self.edge_rounds, concurrency=self.concurrency)
        kept = {edge: run.begin_edge(edge) for edge in run.edges}
        inbox = Mailbox(run.clock)
        idle, dispatches = np.zeros(run.world.num_edges, dtype=bool), 0

        def dispatch(edge: int, round_number: int) -> None:
            idle[edge] = False
            run.observations.dispatched(edge, round_number)
            run.env.process(self._edge(run, edge, cloud, kept[edge], round_number, inbox))

        for edge in run.edges:
            dispatch(edge, dispatches)
        while True:
            with run.clock.waiting("the cloud", "an edge server's model"):
                arrival: Arrival = yield from inbox.get()
            kept[arrival.edge] = arrival.state
            idle[arrival.edge] = True
            run.observations.arrived(arrival.edge, arrival.latency_s)
            staleness = cloud.version - arrival.downloaded_version
            cloud = yield from run.merge(
                cloud, arrival.edge, arrival.state, staleness, arrival.round_number
            )
            if run.publish(
                cloud,
                arrival.round_number,
                arrival.participants,
                staleness=staleness,
                edge=arrival.edge,
            ):
                return cloud
            in_flight = len(run.edges) - int(idle[list(run.edges)].sum())
            if in_flight < self.concurrency:
                dispatches += 1
                dispatch(run.schedule(idle, dispatches), dispatches)

    def _edge(
        self,
        run: Run,
        edge: int,
        cloud: StateRef,
        kept: StateRef,
        round_number: int,
        inbox: Mailbox,
    ) -> Generator[simpy.Event, Any, None]:
        """One dispatch of an edge server: download, edge rounds, upload."""
        dispatched_s, participants = run.clock.now_s, np.zeros(0, dtype=np.int64)
        yield from run.backhaul(edge, cloud, round_number, uplink=False)
        state = run.values.adopt(kept, cloud)
        for _ in range(self.edge_rounds):
            chosen = yield from run.select(state, run.members(edge), round_number, edge)
            delivered = yield from run.turns(chosen, state, round_number, edge, self.patience)
            if run.arrived(delivered):
                state = yield from run.aggregate(state, delivered, round_number, edge)
            participants = np.union1d(participants, delivered.clients)
        yield from run.backhaul(edge, cloud, round_number, uplink=True)
        latency_s = run.clock.now_s - dispatched_s
        arrival = Arrival(edge, state, cloud.version, round_number, latency_s, participants.size)
        inbox.put(edge, arrival)
