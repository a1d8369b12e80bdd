"""Synchronous rounds: the server waits for every client that it selected (McMahan et al. 2017).

With `patience` it selects more clients than it waits for, or waits at most until a deadline.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from simfl.protocols.base import Protocol
from simfl.protocols.clock import Process
from simfl.protocols.deadline_policy import DeadlinePolicy
from simfl.protocols.run import Run
from simfl.protocols.wait_for import WaitFor, waits_for


@dataclass(frozen=True)
class Synchronous(Protocol):
    """Synchronous rounds of one server (the cloud) over the access links, without edge servers."""

    name: ClassVar[str] = "synchronous"

    patience: Annotated[DeadlinePolicy, "how long the server waits for a round's clients"] = field(
        default_factory=DeadlinePolicy
    )
    wait_for: Annotated[
        WaitFor | None,
        "clients that the server waits for before it selects; null: one, or least_updates",
    ] = None

    @property
    def asks(self) -> frozenset[str]:
        """Staleness, if late updates are carried over."""
        return self.may_ask if self.takes_stale_updates else frozenset()

    def process(self, run: Run) -> Process:
        """Repeats: select, train, wait, aggregate, forward, publish."""
        ref, round_number = run.begin("cloud"), 0
        run.expect(ref)
        yield from run.forwards.send(ref, run.all_clients[:0], round_number)
        while True:
            chosen = yield from run.select(
                ref, run.all_clients, round_number, wait_for=waits_for(self.wait_for, self.patience)
            )
            delivered = yield from run.client_rounds(
                chosen, ref, round_number, patience=self.patience
            )
            if run.arrived(delivered):
                staleness = delivered.staleness(ref.version)
                ref = yield from run.aggregate(ref, delivered, round_number)
                yield from run.forwards.send(ref, delivered.clients, round_number)
                if run.publish(ref, round_number, delivered.distinct_clients, staleness=staleness):
                    return ref
            round_number += 1
