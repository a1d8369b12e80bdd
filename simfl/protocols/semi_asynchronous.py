"""Semi-asynchronous hierarchical learning (FedCure, Algorithm 2).

Below an edge server clients are synchronous: it waits for all of them, aggregates, and does so
`edge_rounds` times before it reports. Between edge servers and cloud it is asynchronous: the cloud
merges each model as it arrives, with a share that falls with its staleness, and dispatches again.

At the start all edge servers are dispatched; afterwards at most `concurrency` are in flight: the
first arrivals trigger no dispatch, each later one triggers exactly one, chosen by the scheduling
rule among the idle ones. An edge server without anything new (it crashed, or its clients have left)
counts as an arrival, but nothing is merged.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
import simpy

from simfl.protocols.base import Protocol
from simfl.protocols.clock import Mailbox, Process
from simfl.protocols.deadline_policy import DeadlinePolicy
from simfl.protocols.edge_dispatch import EdgeReport, dispatch_edge
from simfl.protocols.run import Run
from simfl.protocols.wait_for import WaitFor, waits_for
from simfl.system.server_id import ServerId


@dataclass(frozen=True)
class SemiAsynchronous(Protocol):
    """Synchronous between clients and edge servers, asynchronous between edge servers and cloud."""

    name: ClassVar[str] = "semi_asynchronous"
    hierarchical: ClassVar[bool] = True

    edge_rounds: Annotated[int, ">= 1", "edge aggregations per dispatch (tau_e)"] = 12
    concurrency: Annotated[int, ">= 1", "edge servers in flight after the start (C)"] = 2

    patience: Annotated[
        DeadlinePolicy, "how long an edge server waits for the clients of a round"
    ] = field(default_factory=DeadlinePolicy)
    wait_for: Annotated[
        WaitFor | None,
        "clients that an edge server waits for before it selects; null: one, or least_updates",
    ] = None

    def process(self, run: Run) -> Process:
        """The cloud: merges arrivals, publishes, dispatches the next edge server."""
        cloud = run.begin("cloud")
        run.expect(cloud, edge_rounds=self.edge_rounds, concurrency=self.concurrency)
        kept = {edge: run.begin_edge(edge) for edge in run.edges}
        inbox = Mailbox(run.clock)
        idle, dispatches = np.zeros(run.world.num_edges, dtype=bool), 0

        def edge_server(edge: int, round_number: int) -> Generator[simpy.Event, Any, None]:
            report = yield from dispatch_edge(
                run,
                edge,
                lambda: cloud,
                kept[edge],
                round_number,
                self.edge_rounds,
                self.patience,
                waits_for(self.wait_for, self.patience),
            )
            inbox.put(edge, report)

        def dispatch(edge: int, round_number: int) -> None:
            idle[edge] = False
            run.observations.dispatched(edge, round_number)
            run.env.process(edge_server(edge, round_number))

        for edge in run.edges:
            dispatch(edge, dispatches)
        while True:
            with run.clock.waiting("the cloud", "an edge server's model"):
                report: EdgeReport = yield from inbox.get()
            idle[report.edge] = True
            run.observations.arrived(ServerId(report.edge), report.latency_s)
            if report.state is not None:
                kept[report.edge] = report.state
                staleness = cloud.version - report.downloaded_version
                cloud = yield from run.merge(
                    cloud, report.edge, report.state, staleness, report.round_number
                )
                if run.publish(
                    cloud,
                    report.round_number,
                    report.participants,
                    staleness=staleness,
                    edge=report.edge,
                ):
                    return cloud
            in_flight = len(run.edges) - int(idle[list(run.edges)].sum())
            if in_flight < self.concurrency:
                dispatches += 1
                dispatch(run.schedule(idle, dispatches), dispatches)
