"""Client rounds: download, train, upload; and who of a round is waited for."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any

import numpy as np
import simpy

from simfl.common.amounts import one_or_each
from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.common.contract import at_work
from simfl.decisions.base import Allocation
from simfl.eventlog.log import EventLog
from simfl.protocols.clock import Clock
from simfl.protocols.deadline_policy import UNLIMITED, DeadlinePolicy
from simfl.protocols.deliveries import Delivered
from simfl.protocols.dispatched import Dispatched
from simfl.protocols.dispatcher import Dispatcher, Orders, Workload
from simfl.protocols.late import Late
from simfl.protocols.learned_values import LearnedValues
from simfl.protocols.observations import Observations
from simfl.protocols.servers import Crashed
from simfl.protocols.state_ref import StateRef
from simfl.streams import Streams
from simfl.system.server_id import ServerId
from simfl.system.world import World


class ClientRounds:
    """Dispatches clients, hands in their jobs and gathers their updates."""

    def __init__(
        self,
        world: World,
        dispatcher: Dispatcher,
        values: LearnedValues,
        allocation: Allocation,
        observations: Observations,
        num_examples: IntArray,
        streams: Streams,
        log: EventLog,
        clock: Clock,
    ) -> None:
        self._world = world
        self._dispatcher = dispatcher
        self._values = values
        self._allocation = allocation
        self._observations = observations
        self._num_examples = num_examples
        self._streams = streams
        self._clock = clock
        self._count: IntArray = np.zeros(world.num_clients, dtype=np.int64)
        self._held: IntArray = np.full(world.num_clients, -1, dtype=np.int64)
        self._allocations: dict[ServerId, int] = {}
        self._under_way: dict[int, Dispatched] = {}
        self._late = Late(observations, log)

    def together(
        self,
        clients: IntArray,
        ref: StateRef,
        round_number: int,
        server: ServerId,
        held_bytes: IntArray,
        policy: DeadlinePolicy = UNLIMITED,
    ) -> Generator[simpy.Event, Any, Delivered]:
        """Dispatch clients now; ends when `policy` does, at the latest with their last upload.

        What is delivered are the updates that are there by then: none, if all messages were lost.
        `held_bytes` of what each is sent it has already. Raises ValueError for a client that is
        still under way, and `Crashed` when the edge server fails meanwhile.
        """
        now_s = self._clock.now_s
        self._late.observe(now_s)
        rounds, held = self._count[clients], self._held[clients]
        self._count[clients] += 1
        futures = self._values.submit(clients, rounds, ref, held)
        prices = self._values.prices(clients, futures, ref, held)
        examples = self._values.examples(self._num_examples[clients], ref.version) * prices.work
        orders = Orders(
            self._world,
            clients,
            rounds,
            Workload(
                examples,
                self._values.forward_flops,
                np.maximum(prices.down_bytes - held_bytes, 0),
                prices.up_bytes,
                self._frequency_hz(clients, prices.work, round_number, server),
            ),
            ref.version,
            round_number,
            server,
        )

        def computed(places: IntArray, times_s: FloatArray) -> None:
            ended = futures and [futures[place] for place in places]
            self._values.computed(clients[places], ended, times_s)

        def received(places: IntArray) -> None:
            self._held[clients[places]] = ref.version

        cohort = self._dispatcher.dispatch(orders, received, computed)
        self._under_way[id(cohort)] = cohort
        with self._clock.waiting(str(server), f"{clients.size} clients' uploads"):
            try:
                closed_s = yield from cohort.closed(policy, self._values.min_updates)
            except Crashed:
                del self._under_way[id(cohort)]
                self._observations.finished(cohort.reports(cohort.arrives_s <= self._clock.now_s))
                raise
        del self._under_way[id(cohort)]
        if not server.is_edge:
            self._observations.arrived(server, self._clock.now_s - now_s)
        versions = np.full(clients.size, ref.version, dtype=np.int64)
        delivered = Delivered(clients, versions, prices.up_bytes, futures)
        carried = self._late.carried(server, closed_s)

        def late(which: BoolArray) -> None:
            stragglers, reports = delivered.take(which), cohort.reports(which)
            self._late.expect(stragglers, reports, closed_s, round_number, server, policy)

        cohort.follow(closed_s, late)
        there = cohort.arrives_s <= closed_s
        self._observations.finished(cohort.reports(there))
        arrived = delivered if there.all() else delivered.take(there)
        return Delivered.join([arrived, *carried]) if carried else arrived

    def close(self, now_s: float) -> None:
        """The run ends: count rounds that end by now."""
        self._late.observe(now_s)
        for cohort in self._under_way.values():
            self._observations.finished(cohort.reports(cohort.arrives_s <= now_s))
        self._under_way.clear()

    def forget(self, server: ServerId) -> None:
        """A server has lost the updates that it was to carry over."""
        self._late.forget(server)

    def _frequency_hz(
        self, clients: IntArray, work: FloatArray, round_number: int, server: ServerId
    ) -> FloatArray:
        view = self._observations.clients(clients, self._clock.now_s, round_number, server)
        view = view.instead("cycles", partial(np.multiply, view.cycles, work))
        count = self._allocations.get(server, 0)
        self._allocations[server] = count + 1
        # Counted per server, so that simultaneous edge servers draw the same in any order.
        rng = self._streams.generator("allocation", server.stream, count)
        with at_work(self._allocation, "decide"):
            given = self._allocation.decide(view, rng)
        wanted_hz = one_or_each(given, clients.shape, self._allocation, "decide")
        frequency_hz = self._world.round_frequency(clients, wanted_hz)
        self._observations.allocated(server, clients, frequency_hz)
        return frequency_hz
