"""A fixed number of clients in flight, replaced as they arrive: for asynchronous servers."""

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
from simfl.system.moments import Moment


@dataclass(frozen=True)
class Arrival:
    """A client's update at the server, with the number of its dispatch."""

    delivered: Delivered
    round_number: int


class InFlight:
    """Keeps `concurrency` clients (at most all: `slots`) training, each from the latest state.

    A free slot applies the selection rule to the idle clients and dispatches one of those selected,
    drawn uniformly. With a slot for every client nobody is left out, and they are taken in order:
    the one dispatched longest ago first, ties to the lowest number. Slots are interchangeable:
    simultaneously free ones are filled one by one, after all other events of that time. While no
    idle client is available a slot waits for one, or for a client that becomes idle meanwhile.
    """

    def __init__(self, run: Run, ref: StateRef, concurrency: int | None) -> None:
        self.ref = ref
        self._run = run
        self._inbox = Mailbox(run.clock)
        self._busy = np.zeros(run.world.num_clients, dtype=bool)
        self._last_dispatch = np.full(run.world.num_clients, -1, dtype=np.int64)
        self.slots = self._free = min(concurrency or run.world.num_clients, run.world.num_clients)
        self._freed = run.env.event()
        run.env.process(self._fill())

    def next(self) -> Generator[simpy.Event, Any, Arrival]:
        """The next arrival; the caller updates `ref` and releases its slot."""
        with self._run.clock.waiting("the server", "a client's update"):
            arrival: Arrival = yield from self._inbox.get()
        self._busy[arrival.delivered.clients] = False
        return arrival

    @property
    def more_now(self) -> bool:
        """Whether more updates have already arrived."""
        return self._inbox.waiting > 0

    def release(self, slots: int) -> None:
        """Frees slots for other clients."""
        self._free += slots
        if slots and not self._freed.triggered:
            self._freed.succeed()

    def _fill(self) -> Generator[simpy.Event, Any, None]:
        """Dispatches clients as long as there are free slots."""
        run, number = self._run, 0
        while True:
            self._freed = run.env.event()
            if not self._free:
                yield self._freed
                continue
            idle = np.flatnonzero(~self._busy)
            chosen = yield from run.select(self.ref, idle, number, one=True, unless=self._freed)
            if not chosen.size:  # other clients are idle by now
                continue
            place = int(self._last_dispatch[chosen].argmin())
            if self.slots < run.world.num_clients:
                draw = float(run.world.streams.uniform("dispatch", 0, number))
                place = int(draw * chosen.size)
            client = int(chosen[place])
            self._free -= 1
            self._busy[client], self._last_dispatch[client] = True, number
            run.env.process(self._train(client, number))
            number += 1

    def _train(self, client: int, number: int) -> Generator[simpy.Event, Any, None]:
        """One client's round; its slot is freed when the update is handled, or at once if lost."""
        delivered = yield from self._run.client_rounds(np.array([client]), self.ref, number)
        if self._run.arrived(delivered):
            self._inbox.put(client, Arrival(delivered, number))
            return
        self._busy[client] = False
        # All clients that become free at this time do so before any is chosen.
        yield self._run.clock.now(Moment.DECISION)
        self.release(1)
