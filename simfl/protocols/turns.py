"""Turns of clients: download, train, upload.

On links whose transfer times are known at the start, the whole course of a turn is known at
dispatch: the turns of a cohort are computed as arrays and booked at once, and the clock is asked
for one appointment, so that a client that takes part costs rows and no process.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from simfl.decisions.base import Allocation
from simfl.eventlog import EventLog
from simfl.eventrows import Columns, join_rows
from simfl.protocols.clock import Clock
from simfl.protocols.course import Course
from simfl.protocols.deliveries import Delivered
from simfl.protocols.late import Late
from simfl.protocols.messages import message_rows
from simfl.protocols.observations import FLAT, Observations, Reports
from simfl.protocols.patience import UNLIMITED, Patience
from simfl.protocols.state_ref import StateRef
from simfl.protocols.timing_only import TimingOnly
from simfl.protocols.turn_rows import idle_rows, network_row, turn_rows
from simfl.protocols.values import Values
from simfl.streams import Streams
from simfl.system.cost import WireTransfer
from simfl.system.world import TurnPlan, World

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


class Turns:
    """Books the turns of clients and hands in their jobs."""

    def __init__(
        self,
        world: World,
        values: Values | TimingOnly,
        allocation: Allocation,
        observations: Observations,
        num_examples: IntArray,
        streams: Streams,
        log: EventLog,
        clock: Clock,
    ) -> None:
        self._world = world
        self._values = values
        self._allocation = allocation
        self._observations = observations
        self._num_examples = num_examples
        self._streams = streams
        self._log = log
        self._clock = clock
        self._count: IntArray = np.zeros(world.num_clients, dtype=np.int64)
        self._held: IntArray = np.full(world.num_clients, -1, dtype=np.int64)
        self._free_s: FloatArray = np.zeros(world.num_clients)
        self._allocations: dict[int, int] = {}
        self._under_way: dict[int, Reports] = {}
        self._cohorts = 0
        self._late = Late(observations, log)

    def free_s(self, clients: IntArray) -> FloatArray:
        """Since when clients have been free, or when they will be."""
        return self._free_s[clients]

    def together(
        self,
        clients: IntArray,
        ref: StateRef,
        round_number: int,
        edge: int | None,
        held_bytes: IntArray,
        patience: Patience = UNLIMITED,
    ) -> Generator[simpy.Event, Any, Delivered]:
        """Dispatch clients now; ends when `patience` does, at the latest with their last upload.

        What is delivered are the updates that are there by then: none, if all messages were lost.
        `held_bytes` of what each is sent it has already. Raises ValueError for a client that is
        still under way.
        """
        now_s = self._clock.now_s
        self._late.observe(now_s)
        turns, held = self._count[clients], self._held[clients]
        self._count[clients] += 1
        futures = self._values.submit(clients, turns, ref, held)
        prices = self._values.prices(clients, futures, ref, held)
        examples = self._values.examples(self._num_examples[clients], ref.version) * prices.work
        plan = self._world.plan_turns(
            clients,
            turns,
            examples,
            self._values.forward_flops,
            np.maximum(prices.down_bytes - held_bytes, 0),
            prices.up_bytes,
            self._frequency_hz(clients, prices.work, round_number, -1 if edge is None else edge),
            edge,
        )
        course = self.book(clients, plan, ref.version, round_number, edge)
        reached = ~plan.download_failed
        self._held[clients[reached]] = ref.version
        self._values.computed(clients, futures, np.where(reached, course.times_s[2], np.inf))
        energy_j = self._world.power_idle_w[clients] * (course.arrives_s - now_s) + plan.active_j
        cohort, self._cohorts = self._cohorts, self._cohorts + 1
        reports = Reports(clients, course.arrives_s, course.arrives_s - now_s, energy_j)
        self._under_way[cohort] = reports
        who = "the server" if edge is None else f"edge-{edge}"
        closes_s = patience.closes_s(
            now_s, course.arrives_s, float(course.ends_s.max()), self._values.min_updates
        )
        with self._clock.waiting(who, f"{clients.size} clients' uploads"):
            yield self._clock.until(closes_s)
        if edge is None:
            self._observations.arrived(FLAT, self._clock.now_s - now_s)
        versions = np.full(clients.size, ref.version, dtype=np.int64)
        delivered = Delivered(clients, versions, prices.up_bytes, futures)
        tier = -1 if edge is None else edge
        carried = self._late.carried(tier, closes_s)
        del self._under_way[cohort]
        there = course.arrives_s <= closes_s
        late = ~there & np.isfinite(course.arrives_s)
        if late.any():
            stragglers = delivered.take(late)
            self._late.expect(
                stragglers, reports.take(late), closes_s, round_number, tier, patience
            )
        if not there.all():
            delivered, reports = delivered.take(there), reports.take(there)
        self._observations.turns(reports)
        return Delivered.join([delivered, *carried]) if carried else delivered

    def book(
        self,
        clients: IntArray,
        plan: TurnPlan,
        version: int,
        round_number: int,
        edge: int | None,
        *,
        query: bool = False,
    ) -> Course:
        """Enter what clients do from now on, by `plan`, and their messages.

        With `query` the rows' details say that this is no training turn. Raises ValueError for a
        client that is still under way.
        """
        now_s = self._clock.now_s
        busy = clients[self._free_s[clients] > now_s]
        if busy.size:
            raise ValueError(f"client {busy[0]} is dispatched while an earlier turn is under way")
        self._log.advance(now_s)
        course = Course.of(plan, now_s)
        tier = -1 if edge is None else edge
        idle_w = self._world.power_idle_w[clients]
        rows = turn_rows(
            clients,
            plan,
            course.times_s,
            idle_w,
            edge=tier,
            version=version,
            round_number=round_number,
            detailed=self._log.write_rows,
            query=query,
        )
        self._log.add(join_rows([self._idle_rows(clients, now_s), rows]))
        network = self._log.actors.network
        spent = network_row(
            plan, network, now_s, float(course.ends_s.max()), tier, version, round_number
        )
        if spent is not None:
            self._log.add(spent)
        course.send(self._log.accounts.messages, clients, plan)
        self._free_s[clients] = course.ends_s
        return course

    def receive(
        self, clients: IntArray, message: WireTransfer, version: int, round_number: int
    ) -> None:
        """Enter a message to each client beside its turns, as soon as it is free."""
        now_s = self._clock.now_s
        waited = self._idle_rows(clients, now_s)
        start_s = np.maximum(self._free_s[clients], now_s)
        end_s = start_s + message.duration_s
        self._free_s[clients] = end_s
        idle_w = self._world.power_idle_w[clients]
        about = {"version": version, "round": round_number}
        self._log.advance(now_s)
        self._log.add(waited)
        self._log.add(message_rows(self._log.actors, clients, start_s, message, idle_w, **about))
        sent = message.attempts * message.wire_bytes
        self._log.accounts.messages.send(clients, start_s, end_s, sent, now_s, uplink=False)

    def close(self, now_s: float) -> None:
        """The run ends: count turns that end by now, and book who waits."""
        self._late.observe(now_s)
        for reports in self._under_way.values():
            self._observations.turns(reports.take(reports.uploaded_s <= now_s))
        self._under_way.clear()
        clients = np.flatnonzero(self._free_s < now_s)
        self._log.add(self._idle_rows(clients, now_s))
        self._free_s[clients] = now_s

    def _frequency_hz(
        self, clients: IntArray, work: FloatArray, round_number: int, tier: int
    ) -> FloatArray:
        view = self._observations.clients(clients, self._clock.now_s, round_number, tier)
        view = replace(view, cycles=view.cycles * work)
        count = self._allocations.get(tier, 0)
        self._allocations[tier] = count + 1
        # Counted per tier, so that simultaneous edge servers draw the same in any order.
        rng = self._streams.generator("allocation", tier + 1, count)
        frequency_hz = self._world.round_frequency(clients, self._allocation.decide(view, rng))
        self._observations.allocated(tier, clients, frequency_hz)
        return frequency_hz

    def _idle_rows(self, clients: IntArray, now_s: float) -> Columns:
        waited = clients[self._free_s[clients] < now_s]
        return idle_rows(waited, self._free_s[waited], now_s, self._world.power_idle_w[waited])
