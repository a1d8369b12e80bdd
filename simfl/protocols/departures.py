"""Beginnings of turns: who is free, what is booked of a turn, and until when clients are busy.

Where every message has a link of its own, the whole course of a turn is known at dispatch: the
turns of a cohort are computed as arrays and booked at once (`Booked`), and a client that takes part
costs rows and no process. Over shared media turns go from stage to stage (`Stages`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import simpy
from numpy.typing import ArrayLike

from simfl.common.arrays import FloatArray, IntArray
from simfl.common.limits import LATEST_S
from simfl.eventlog.log import EventLog
from simfl.eventlog.rows import join_rows
from simfl.protocols.clock import Clock, Stalled
from simfl.protocols.course import Course
from simfl.protocols.drains import Drains
from simfl.protocols.errands import Errand, Errands
from simfl.protocols.flight import Booked, Flight
from simfl.protocols.media import Media
from simfl.protocols.messages import message_rows
from simfl.protocols.resting import Resting
from simfl.protocols.servers import Servers
from simfl.protocols.stages import Cohort, Stages, Told
from simfl.protocols.turn_rows import mishap_row, network_row, turn_rows
from simfl.system.cost import WireTransfer
from simfl.system.presence import Presence
from simfl.system.world import TurnPlan, World

Received = Callable[[IntArray], None]
Computed = Callable[[IntArray, FloatArray], None]


@dataclass(frozen=True, eq=False)
class Orders:
    """What clients are to do now, one entry each: see `World.plan_turns`.

    `numbers` address the draws of `world`; `version`, `round_number` and `edge` (None: a flat
    server) are what the rows say. With `query` this is no training turn.
    """

    world: World
    clients: IntArray
    numbers: IntArray
    examples: FloatArray
    forward_flops: float
    down_bytes: ArrayLike
    up_bytes: ArrayLike
    frequency_hz: FloatArray
    version: int
    round_number: int
    edge: int | None
    query: bool = False

    @property
    def about(self) -> dict[str, int]:
        """Columns of all rows."""
        tier = -1 if self.edge is None else self.edge
        return {"edge": tier, "version": self.version, "round": self.round_number}


class Departures:
    """Books what clients do and what they wait."""

    def __init__(
        self, world: World, log: EventLog, clock: Clock, presence: Presence, servers: Servers
    ) -> None:
        self._world = world
        self._log = log
        self._clock = clock
        self._presence = presence
        self._servers = servers
        radios = world.messenger.client_radios
        self._resting = Resting(log, clock, 0, radios, charge=presence.charge)
        self.shared = world.access_sharing.contended
        self._drains = None if presence.charge is None else Drains(clock, presence.charge)
        draw = None if self._drains is None else self._drains.draw_on_medium
        self._media = Media(world.access_sharing, log, clock, draw)
        self._errands = Errands(world, self._media, self._drains, clock, self._free)
        self._freed = clock.env.event()

    def free_s(self, clients: IntArray) -> FloatArray:
        """Since when clients have been free, or when they will be; inf: nobody knows yet."""
        return self._resting.free_s(clients)

    def radio_idle_s(self, clients: IntArray) -> FloatArray:
        """Seconds since each client's last message, now or when it will be free; inf: asleep."""
        at_s = np.maximum(self._resting.free_s(clients), self._clock.now_s)
        return self._resting.radio_idle_s(clients, at_s)

    @property
    def freed(self) -> simpy.Event:
        """Happens when the next client is free of which nobody knew when that would be."""
        return self._freed

    def depart(self, orders: Orders, received: Received, computed: Computed) -> Flight:
        """Clients begin their turns now.

        `received(places)` learns who gets its message, `computed(places, times_s)` when
        computations end (inf: they never do), before they do. Raises ValueError for a client still
        under way, or one that there is not, and `Stalled` for a turn that would not end before
        simulated time does.
        """
        now_s, clients = self._clock.now_s, orders.clients
        if clients.size and (clients.min() < 0 or clients.max() >= self._world.num_clients):
            raise ValueError(f"clients {clients.tolist()} are dispatched, and not all are there")
        busy = clients[self.free_s(clients) > now_s]
        if busy.size:
            raise ValueError(f"client {busy[0]} is dispatched while an earlier turn is under way")
        radio_idle_s = self._resting.radio_idle_s(clients, now_s)
        plan = orders.world.plan_turns(
            clients,
            orders.numbers,
            orders.examples,
            orders.forward_flops,
            orders.down_bytes,
            orders.up_bytes,
            orders.frequency_hz,
            orders.edge,
            radio_idle_s,
        )
        self._check_ends(clients, plan)
        self._log.advance(now_s)
        if self.shared:
            return self._by_stages(orders, plan, radio_idle_s, received, computed)
        return self._booked(orders, plan, received, computed)

    def receive(
        self, clients: IntArray, message: WireTransfer, version: int, round_number: int
    ) -> None:
        """Enter a message to each client beside its turns, as soon as it is free."""
        now_s = self._clock.now_s
        waited = self._resting.until_now(clients)
        start_s = np.maximum(self.free_s(clients), now_s)
        end_s = start_s + message.duration_s
        unmet_j = np.zeros(clients.size)
        if self._presence.charge is not None:
            unmet_j = self._presence.charge.spend(clients, start_s, end_s, message.active_j)
        self._resting.free(clients, end_s, message.silent_s)
        idle_w = self._world.power_idle_w[clients]
        about = {"version": version, "round": round_number}
        self._log.advance(now_s)
        self._log.add(waited)
        rows = message_rows(self._log.actors, clients, start_s, message, idle_w, unmet_j, **about)
        self._log.add(rows)
        sent = message.attempts * message.wire_bytes
        self._log.accounts.messages.send(clients, start_s, end_s, sent, now_s, uplink=False)

    def take(
        self, client: int, raw_bytes: int, number: Callable[[], int], about: dict[str, int]
    ) -> simpy.Event:
        """Send a message beside its turns over a shared medium, as soon as the client is free.

        Each time with the draws of a `number` of its own; the event is its arrival.
        """
        done = self._clock.env.event()
        self._errands.add(client, Errand(raw_bytes, number, about, done))
        if self._resting.free_s(np.array([client]))[0] <= self._clock.now_s:
            self._begin_errand(client)
        return done

    def _free(self, client: int, silent_s: float, stays_s: float = np.inf) -> None:
        """A client has done what nobody knew the end of, and does the next thing or rests."""
        who, now_s = np.array([client]), self._clock.now_s
        self._resting.free(who, now_s, silent_s, stays_s)
        if self._errands.waits(client):
            self._begin_errand(client)
            return
        freed, self._freed = self._freed, self._clock.env.event()
        freed.succeed()

    def _begin_errand(self, client: int) -> None:
        who = np.array([client])
        self._log.add(self._resting.until_now(who))
        radio_idle_s = float(self._resting.radio_idle_s(who, self._clock.now_s)[0])
        self._resting.busy(who, np.inf)
        self._errands.begin(client, radio_idle_s)

    def close(self, now_s: float) -> None:
        """The run ends: cut messages under way on shared media, and book who waits."""
        for client in self._media.senders:
            self._media.cut(client)
        self._log.add(self._resting.until_now(self._resting.waiting(now_s)))

    def settle(self) -> None:
        """Book, until now, tails and the waiting of clients whose batteries have been empty."""
        now_s = self._clock.now_s
        self._resting.settle(now_s)
        if self._presence.charge is not None:
            off = self._presence.charge.settle(self._resting.waiting(now_s), now_s)
            self._log.add(self._resting.until_now(off))

    def _check_ends(self, clients: IntArray, plan: TurnPlan) -> None:
        stages_s = np.stack([plan.download_s, plan.compute_s, plan.upload_s])
        endless = np.flatnonzero(~(self._clock.now_s + stages_s.sum(axis=0) <= LATEST_S))
        if endless.size:
            first = endless[0]
            download_s, compute_s, upload_s = stages_s[:, first].tolist()
            raise Stalled(
                f"stalled at {self._clock.now_s:g} s: a turn of client {clients[first]} would take"
                f" {download_s:g} s to download, {compute_s:g} s to compute and {upload_s:g} s to"
                " upload; what are the population's rates, clock frequencies and spreads?"
            )

    def _booked(
        self, orders: Orders, plan: TurnPlan, received: Received, computed: Computed
    ) -> Flight:
        now_s, clients, edge = self._clock.now_s, orders.clients, orders.edge
        outcome = self._presence.turns(clients, plan, now_s, self._servers.fails_s(edge))
        course, plan = Course.of(outcome, clients, now_s), outcome.plan
        idle_w = self._world.power_idle_w[clients]
        rows = turn_rows(
            clients,
            plan,
            course.times_s,
            idle_w,
            edge=orders.about["edge"],
            version=orders.version,
            round_number=orders.round_number,
            detailed=self._log.write_rows,
            query=orders.query,
        )
        self._log.add(join_rows([self._resting.until_now(clients), rows]))
        network, ends_s = self._log.actors.network, float(course.ends_s.max())
        spent = network_row(plan, network, now_s, ends_s, *orders.about.values())
        if spent is not None:
            self._log.add(spent)
        for mishap in outcome.mishaps:
            self._log.row(**{**mishap_row(mishap), **orders.about})
        course.send(self._log.accounts.messages, clients)
        radio_idle_s = np.where(np.isfinite(outcome.stops_s), np.inf, plan.radio_idle_s)
        self._resting.free(clients, course.ends_s, radio_idle_s, outcome.stays_s)
        received(np.flatnonzero(~plan.download_failed))
        computed(np.arange(clients.size), course.computed_s)
        wait = partial(self._servers.until, edge)
        return Booked(clients, course, idle_w, plan.active_j, now_s, wait)

    def _by_stages(
        self,
        orders: Orders,
        plan: TurnPlan,
        radio_idle_s: FloatArray,
        received: Received,
        computed: Computed,
    ) -> Flight:
        clients, world = orders.clients, orders.world
        stops_s, causes = self._presence.stops_s(clients, self._clock.now_s)

        def free(place: int, silent_s: float, stays_s: float) -> None:
            self._free(int(clients[place]), silent_s, stays_s)

        self._log.add(self._resting.until_now(clients))
        self._resting.busy(clients, np.inf)
        messenger, edge = world.messenger, orders.edge
        cohort = Cohort(
            clients,
            plan,
            messenger.shared_access(
                clients, orders.numbers, orders.down_bytes, False, edge, radio_idle_s
            ),
            messenger.shared_access(
                clients,
                orders.numbers,
                orders.up_bytes,
                True,
                edge,
                np.where(plan.down_bytes > 0, 0.0, radio_idle_s) + plan.compute_s,
            ),
            world.air(clients, edge),
            world.power_idle_w[clients],
            radio_idle_s,
            orders.about,
            orders.query,
            stops_s,
            causes,
            edge,
        )
        told = Told(received, computed, free)
        return Stages(
            cohort,
            self._presence,
            self._drains,
            self._servers,
            self._media,
            self._log,
            self._clock,
            told,
        )
