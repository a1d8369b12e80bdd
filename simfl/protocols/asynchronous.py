"""Asynchronous learning, one update at a time (FedAsync: Xie, Koyejo, Gupta, arXiv 1903.03934).

    alpha s(t - tau)   share of an update that is t - tau versions old   `decisions.staleness`
    theta              "(1 - alpha_t) theta + alpha_t theta_i"           `mixing: model`

With `mixing: delta` the client's change is added instead, theta + alpha_t (theta_i - theta_tau):
the same without staleness. FedAsync's local proximal term is the algorithm's (fedprox).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from simfl.protocols.base import Protocol
from simfl.protocols.clock import Process
from simfl.protocols.in_flight import InFlight
from simfl.protocols.run import Run


@dataclass(frozen=True)
class Asynchronous(Protocol):
    """The server updates its model at every arrival, then dispatches a client into the free slot.

    FedAsync's shares are `decisions.staleness: {name: polynomial, initial: 0.6, exponent: 0.5}`.
    The default is FedCure's rule, 0.2 x 0.9^staleness.
    """

    name: ClassVar[str] = "asynchronous"
    overlapping: ClassVar[bool] = True

    concurrency: Annotated[
        int | None, ">= 1", "clients in flight; null: all, which leaves the selection no choice"
    ] = None
    mixing: Literal["model", "delta"] = "model"

    @property
    def most_updates(self) -> int | None:
        """1: every update is aggregated alone."""
        return 1

    def process(self, run: Run) -> Process:
        """Absorbs arrivals, publishes, dispatches the next client."""
        ref = run.begin("cloud")
        clients = InFlight(run, ref, self.concurrency)
        run.expect(ref, in_flight=clients.slots)
        while True:
            arrival = yield from clients.next()
            delivered, version = arrival.delivered, clients.ref.version
            rebase = self.mixing == "delta"
            number = arrival.round_number
            ref = yield from run.aggregation.absorb(clients.ref, delivered, number, rebase=rebase)
            clients.ref = ref
            clients.release(1)
            staleness = delivered.staleness(version)
            if run.publish(ref, number, 1, staleness=staleness):
                return ref
