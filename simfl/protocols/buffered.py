"""Buffered asynchronous learning (FedBuff: Nguyen et al., AISTATS 2022, arXiv 2106.06639).

    K          updates per server step                       `buffer`
    s(tau)     weight of an update that is tau versions old  `decisions.staleness`
    eta_g      server learning rate                          `server_learning_rate`

"theta <- theta + eta_g / K sum_i s(tau_i) (theta_i - theta_{tau_i})" is `Aggregation.absorb`.

Departures: 1. the mean over the buffer is the algorithm's, for FedAvg weighted by data size; the
paper's is uniform; 2. no differential privacy or secure aggregation; 3. running statistics of
BatchNorm have no gradient: the clients' statistics are mixed in, each with its share, and a rate
above 1 does not amplify them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from simfl.protocols.base import Protocol
from simfl.protocols.clock import Process
from simfl.protocols.deliveries import Delivered
from simfl.protocols.in_flight import InFlight
from simfl.protocols.run import Run


@dataclass(frozen=True)
class Buffered(Protocol):
    """The server collects `buffer` updates, of any versions, and then takes one step.

    FedBuff's weights are `decisions.staleness: {name: polynomial, initial: 1.0, exponent: 0.5}`.
    The default is FedCure's rule, 0.2 x 0.9^staleness, with steps less than a third as large.
    """

    name: ClassVar[str] = "buffered"
    overlapping: ClassVar[bool] = True

    buffer: Annotated[int, ">= 1", "updates per server step (K)"] = 10
    concurrency: Annotated[
        int | None, ">= 1", "clients in flight; null: all, which leaves the selection no choice"
    ] = None
    server_learning_rate: Annotated[float, "> 0", "eta_g"] = 1.0

    @property
    def most_updates(self) -> int | None:
        """The size of the buffer."""
        return self.buffer

    def process(self, run: Run) -> Process:
        """Fills the buffer, steps, publishes; clients continue from the latest version at once."""
        ref = run.begin("cloud")
        clients = InFlight(run, ref, self.concurrency)
        run.expect(ref, in_flight=clients.slots)
        while True:
            gathered: list[Delivered] = []
            held = 0
            version = clients.ref.version
            while len(gathered) < self.buffer:
                arrival = yield from clients.next()
                gathered.append(arrival.delivered)
                held += 1
                # Clients that arrive together continue together, from the version that they make.
                if len(gathered) < self.buffer and not clients.more_now:
                    clients.release(held)
                    held = 0
            delivered = Delivered.join(gathered)
            ref = yield from run.aggregation.absorb(
                clients.ref,
                delivered,
                arrival.round_number,
                rebase=True,
                server_rate=self.server_learning_rate,
            )
            clients.ref = ref
            clients.release(held)
            staleness = delivered.staleness(version)
            number, participants = arrival.round_number, delivered.distinct_clients
            if run.publish(ref, number, participants, staleness=staleness):
                return ref
