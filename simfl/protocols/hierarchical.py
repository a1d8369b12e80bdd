"""Synchronous hierarchical rounds (HierFAVG: Liu et al., ICC 2020, arXiv 1905.06641).

    kappa_1   local steps per edge round      `algorithm.local`
    kappa_2   edge rounds per cloud round     `edge_rounds`

Every edge server runs kappa_2 rounds with its clients, then the cloud averages the edge models,
weighted by their clients' data, and starts all of them again. With one edge round this is FedAvg.
Edge servers without anything new, because of crashes or absent clients, are left out of the
average. One that is broken at the start of a round is not dispatched, unless all are: then the
cloud waits for a repair.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
import simpy

from simfl.protocols.base import Protocol
from simfl.protocols.clock import Process
from simfl.protocols.deadline_policy import DeadlinePolicy
from simfl.protocols.edge_dispatch import EdgeReport, dispatch_edge
from simfl.protocols.run import Run
from simfl.protocols.wait_for import WaitFor, waits_for
from simfl.system.server_id import ServerId


@dataclass(frozen=True)
class Hierarchical(Protocol):
    """Synchronous rounds at both tiers: clients with edge servers, edge servers with the cloud."""

    name: ClassVar[str] = "hierarchical"
    hierarchical: ClassVar[bool] = True
    gives_up_edge_servers: ClassVar[bool] = True

    edge_rounds: Annotated[int, ">= 1", "edge aggregations per cloud round (kappa_2)"] = 2

    patience: Annotated[
        DeadlinePolicy, "how long an edge server waits for the clients of a round"
    ] = field(default_factory=DeadlinePolicy)
    wait_for: Annotated[
        WaitFor | None,
        "clients that an edge server waits for before it selects; null: one, or least_updates",
    ] = None

    @property
    def asks(self) -> frozenset[str]:
        """Association, and staleness if late updates are carried over."""
        idle = {"scheduling"} if self.takes_stale_updates else {"scheduling", "staleness"}
        return self.may_ask - idle

    def process(self, run: Run) -> Process:
        """Repeats: dispatch all edge servers that work, wait for all, average, publish."""
        cloud, round_number = run.begin("cloud"), 0
        run.expect(cloud, edge_rounds=self.edge_rounds)
        kept = {edge: run.begin_edge(edge) for edge in run.edges}

        def edge_server(
            edge: int, reports: dict[int, EdgeReport]
        ) -> Generator[simpy.Event, Any, None]:
            run.observations.dispatched(edge, round_number)
            reports[edge] = yield from dispatch_edge(
                run,
                edge,
                lambda: cloud,
                kept[edge],
                round_number,
                self.edge_rounds,
                self.patience,
                waits_for(self.wait_for, self.patience),
                run.world.noticed_after_s,
            )
            run.observations.arrived(ServerId(edge), reports[edge].latency_s)

        while True:
            reports: dict[int, EdgeReport] = {}
            working = yield from run.working_edges()
            with run.clock.waiting("the cloud", "all edge servers' models"):
                yield run.env.all_of(
                    [run.env.process(edge_server(edge, reports)) for edge in working]
                )
            brought = {edge: one.state for edge, one in reports.items() if one.state is not None}
            if brought:
                kept.update(brought)
                cloud = yield from run.aggregation.merge_all(cloud, brought, round_number)
            round_number += 1
            participants = sum(report.participants for report in reports.values())
            fresh = np.zeros(len(brought), dtype=np.int64)
            if brought and run.publish(cloud, round_number, participants, staleness=fresh):
                return cloud
