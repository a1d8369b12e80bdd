"""Synchronous hierarchical rounds (HierFAVG: Liu et al., ICC 2020, arXiv 1905.06641).

    kappa_1   local steps per edge round      `algorithm.local`
    kappa_2   edge rounds per cloud round     `edge_rounds`

Every edge server runs kappa_2 rounds of its clients, then the cloud averages the edge models,
weighted by their members' data, and starts all of them again. With one edge round this is FedAvg.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import simpy

from simfl.protocols.base import Protocol
from simfl.protocols.clock import Process
from simfl.protocols.patience import Patience
from simfl.protocols.run import Run
from simfl.protocols.state_ref import StateRef


@dataclass(frozen=True)
class Hierarchical(Protocol):
    """Client-edge and edge-cloud synchronous."""

    name: ClassVar[str] = "hierarchical"
    hierarchical: ClassVar[bool] = True

    edge_rounds: Annotated[int, ">= 1", "edge aggregations per cloud round (kappa_2)"] = 2

    patience: Annotated[Patience, "how long an edge server waits for its clients"] = field(
        default_factory=Patience
    )

    def process(self, run: Run) -> Process:
        """Dispatch all edge servers, wait for all, average, publish; again."""
        cloud, round_number = run.begin("cloud"), 0
        run.expect(cloud, edge_rounds=self.edge_rounds)
        kept = {edge: run.begin_edge(edge) for edge in run.edges}
        participants: dict[int, int] = {}

        def edge_server(edge: int) -> Generator[simpy.Event, Any, None]:
            began_s = run.clock.now_s
            run.observations.dispatched(edge, round_number)
            yield from run.backhaul(edge, cloud, round_number, uplink=False)
            state: StateRef = run.values.adopt(kept[edge], cloud)
            for _ in range(self.edge_rounds):
                chosen = yield from run.select(state, run.members(edge), round_number, edge)
                delivered = yield from run.turns(chosen, state, round_number, edge, self.patience)
                if run.arrived(delivered):
                    state = yield from run.aggregate(state, delivered, round_number, edge)
                participants[edge] = int(delivered.clients.size)
            yield from run.backhaul(edge, cloud, round_number, uplink=True)
            kept[edge] = state
            run.observations.arrived(edge, run.clock.now_s - began_s)

        while True:
            with run.clock.waiting("the cloud", "all edge servers' models"):
                yield run.env.all_of([run.env.process(edge_server(edge)) for edge in run.edges])
            cloud = yield from run.aggregation.merge_all(cloud, kept, round_number)
            round_number += 1
            if run.publish(cloud, round_number, sum(participants.values()), staleness=0):
                return cloud
