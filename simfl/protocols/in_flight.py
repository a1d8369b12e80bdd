"""A fixed number of clients in flight, replaced as they arrive: what asynchronous servers share."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy

from simfl.protocols.clock import Mailbox
from simfl.protocols.deliveries import Delivered
from simfl.protocols.run import Run
from simfl.protocols.state_ref import StateRef


@dataclass(frozen=True)
class Arrival:
    """A client's update at the server, with the number of its dispatch.

    `handled` is triggered when its slot may go on.
    """

    delivered: Delivered
    round_number: int
    handled: simpy.Event


class InFlight:
    """Keeps `concurrency` clients (at most all) training, each from the latest state.

    A free slot asks the selection rule among the idle clients and dispatches the one of its choice
    that was dispatched longest ago, ties to the lowest number.
    """

    def __init__(self, run: Run, ref: StateRef, concurrency: int | None) -> None:
        self.ref = ref
        self._run = run
        self._inbox = Mailbox(run.clock)
        self._busy = np.zeros(run.world.num_clients, dtype=bool)
        self._last_dispatch = np.full(run.world.num_clients, -1, dtype=np.int64)
        self._dispatches = 0
        for _ in range(min(concurrency or run.world.num_clients, run.world.num_clients)):
            run.env.process(self._slot())

    def next(self) -> Generator[simpy.Event, Any, Arrival]:
        """The next arrival; the caller updates `ref` and triggers `handled`."""
        with self._run.clock.waiting("the server", "a client's update"):
            arrival: Arrival = yield from self._inbox.get()
        self._busy[arrival.delivered.clients] = False
        return arrival

    @property
    def more_now(self) -> bool:
        """Whether further updates have arrived already."""
        return self._inbox.waiting > 0

    def _slot(self) -> Generator[simpy.Event, Any, None]:
        run = self._run
        while True:
            idle = np.flatnonzero(~self._busy)
            chosen = yield from run.select(self.ref, idle, self._dispatches, one=True)
            # What the selection saw may have changed while it waited for a client to come.
            still_idle = chosen[~self._busy[chosen]]
            if not still_idle.size:
                continue
            longest_ago = still_idle[self._last_dispatch[still_idle].argmin()]
            client = np.array([longest_ago])
            number = self._dispatches
            self._dispatches += 1
            self._busy[client], self._last_dispatch[client] = True, number
            delivered = yield from run.turns(client, self.ref, number)
            if not run.arrived(delivered):
                self._busy[client] = False
                continue
            handled = run.env.event()
            self._inbox.put(int(longest_ago), Arrival(delivered, number, handled))
            yield handled
