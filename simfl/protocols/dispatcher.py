"""Dispatches clients: tracks who is free, and runs and books their rounds and waits.

With dedicated links a cohort's rounds are computed ahead and booked at once: a participating client
costs rows but no process. Over shared channels rounds are stepped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy
from numpy.typing import ArrayLike

from simfl.common.arrays import FloatArray, IntArray
from simfl.common.limits import LATEST_S
from simfl.common.model_work import ModelWork
from simfl.eventlog.accounts import Heading
from simfl.eventlog.log import EventLog
from simfl.eventlog.rows import Rows
from simfl.protocols.ahead import Limits, walk
from simfl.protocols.battery_depletion import BatteryDepletion
from simfl.protocols.booking import Booking, Entry
from simfl.protocols.clock import Clock, Stalled
from simfl.protocols.dispatched import Dispatched
from simfl.protocols.fates import Fates
from simfl.protocols.idle_tracker import IdleTracker
from simfl.protocols.servers import MOST_FAILURES, Servers
from simfl.protocols.stepped import Listeners, Sending, Stepped
from simfl.protocols.timeline import Timeline
from simfl.system.messages import Transmission
from simfl.system.presence import Presence
from simfl.system.round_plan import RoundPlan
from simfl.system.segments import COMPUTE, DOWNLOAD, UPLOAD, Segments
from simfl.system.server_id import CLOUD, ServerId
from simfl.system.sharing.medium import Channels
from simfl.system.world import World

Received = Callable[[IntArray], None]
Computed = Callable[[IntArray, FloatArray], None]


@dataclass(frozen=True, eq=False)
class Workload:
    """The load of a round on each client's device, one entry each: see `World.plan_rounds`.

    Training passes over `examples` in `steps` steps, for a model with this `work`, at
    `frequency_hz`; bytes are before the codec. It needs `needed_bytes` of memory; None: the world
    knows which clients lack memory.
    """

    examples: FloatArray
    steps: FloatArray
    work: ModelWork
    down_bytes: ArrayLike
    up_bytes: ArrayLike
    frequency_hz: FloatArray
    needed_bytes: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Orders:
    """Orders to clients for a round that begins now.

    `numbers` address the draws of `world`; `version`, `round_number` and `server` go into the rows.
    With `query` this is not training.
    """

    world: World
    clients: IntArray
    numbers: IntArray
    load: Workload
    version: int
    round_number: int
    server: ServerId
    query: bool = False

    @property
    def about(self) -> dict[str, int]:
        """Columns of all rows."""
        return {"edge": self.server.number, "version": self.version, "round": self.round_number}

    @property
    def lacking_bytes(self) -> FloatArray:
        """The missing bytes of each client's memory for training; a query needs none."""
        if self.load.needed_bytes is not None:
            return self.world.lacking(self.clients, self.load.needed_bytes)
        if self.query or self.world.lacking_bytes is None:
            return np.zeros(self.clients.size)
        lacking: FloatArray = self.world.lacking_bytes[self.clients]
        return lacking

    def plan(self, radio_idle_s: FloatArray) -> RoundPlan:
        """The plan of these rounds, given the time since the clients' last messages."""
        return self.world.plan_rounds(
            self.clients,
            self.numbers,
            self.load.examples,
            self.load.work,
            self.load.down_bytes,
            self.load.up_bytes,
            self.load.frequency_hz,
            self.server.access_point,
            radio_idle_s,
            self.load.steps,
        )


@dataclass(frozen=True, eq=False)
class OutOfRoundMessage:
    """A message to a client outside its rounds; `number()` addresses the draws of each attempt.

    `about` are columns of its rows; the event `done` happens when it has arrived.
    """

    raw_bytes: int
    number: Callable[[], int]
    about: dict[str, int]
    done: simpy.Event


class Dispatcher:
    """Dispatches clients and knows until when each is busy; books rounds and waits."""

    def __init__(
        self,
        world: World,
        log: EventLog,
        clock: Clock,
        presence: Presence,
        servers: Servers,
        fates: Fates,
    ) -> None:
        self._world = world
        self._log = log
        self._clock = clock
        self._presence = presence
        self._servers = servers
        self.booking = Booking(log, Heading.CLIENTS)
        self.fates = fates
        charge = presence.charge
        self._idle = IdleTracker(log, clock, 0, world.messenger.client_radios, charge=charge)
        self._depletion = None if charge is None else BatteryDepletion(clock, charge)
        draw = None if self._depletion is None else self._depletion.draw_on_medium
        self._channels = Channels(world.client_sharing, clock.env, draw)
        self._out_of_round: dict[int, deque[OutOfRoundMessage]] = {}
        self._freed = clock.env.event()

    @property
    def shared(self) -> bool:
        """Whether clients share channels: their rounds are stepped, not walked ahead."""
        return self._world.client_sharing.contended

    def free_s(self, clients: IntArray) -> FloatArray:
        """Since when clients are free as far as their server knows, or will be; inf: unknown."""
        free_s: FloatArray = np.maximum(self._idle.free_s(clients), self.fates.given_up_s[clients])
        return free_s

    def radio_idle_s(self, clients: IntArray) -> FloatArray:
        """Seconds since each client's last message, now or when it will be free; inf: asleep."""
        at_s = np.maximum(self._idle.free_s(clients), self._clock.now_s)
        return self._idle.radio_idle_s(clients, at_s)

    def fails_s(self, server: ServerId) -> float:
        """When a server that works now fails next; inf: never."""
        return self._servers.fails_s(server)

    @property
    def freed(self) -> simpy.Event:
        """An event: the next end of a client's round or message over a shared channel.

        Such ends are not known ahead (`free_s` is inf until then), so a waiter for a free client
        waits for this event, too. A client with a pending message takes that first.
        """
        return self._freed

    def dispatch(self, orders: Orders, received: Received, computed: Computed) -> Dispatched:
        """Starts clients' rounds now.

        Calls `received(places)` for clients (places in `orders.clients`) whose download arrives,
        and `computed(places, times_s)` with the ends of computations (inf: interrupted), both
        before the clock gets there. Raises ValueError for a client that is still busy or does not
        exist, and `Stalled` for a round longer than simulated time can be.
        """
        now_s, clients = self._clock.now_s, orders.clients
        if clients.size and (clients.min() < 0 or clients.max() >= self._world.num_clients):
            raise ValueError(
                f"found clients {clients.tolist()}, accepted: numbers from 0 to"
                f" {self._world.num_clients - 1}"
            )
        busy = clients[self.free_s(clients) > now_s]
        if busy.size:
            raise ValueError(f"client {busy[0]} is dispatched while an earlier round is under way")
        radio_idle_s = self._idle.radio_idle_s(clients, now_s)
        plan = orders.plan(radio_idle_s)
        lacking_bytes = orders.lacking_bytes
        if lacking_bytes.any():
            plan = plan.without_training(lacking_bytes > 0)
        self._check_ends(clients, plan)
        self._log.advance(now_s)
        timeline = Timeline.of_round(clients, plan, self._servers.fails_s(orders.server))
        timeline.ends.earlier_message_s[:] = now_s - radio_idle_s
        timeline.ends.absent_from_s = self._presence.interruptions.absent_from_s(clients, now_s)
        stops_s, causes = self._presence.interruptions.stops_s(clients, now_s)
        limits = Limits(
            stops_s, causes, self._presence.interruptions, self._presence.charge, timeline.heard_s
        )
        begin = self._step if self.shared else self._walk
        return begin(orders, plan, timeline, limits, received, computed)

    def _walk(
        self,
        orders: Orders,
        plan: RoundPlan,
        timeline: Timeline,
        limits: Limits,
        received: Received,
        computed: Computed,
    ) -> Dispatched:
        """Rounds over dedicated links: every end is known now."""
        now_s, clients = self._clock.now_s, orders.clients
        walked = walk(plan.segments, clients, np.full(clients.size, now_s), limits)
        timeline.take(walked)
        timeline.paused(walked.pauses)
        entry = Entry(timeline, orders.about, orders.query, walked)
        self._log.add(self._rested(clients))
        self.booking.ahead(entry, now_s)
        for place, stage in walked.stops:
            self.booking.interruption(
                self._presence.interruptions.interruption(
                    int(clients[place]),
                    int(walked.causes[place]),
                    float(walked.stops_s[place]),
                    stage,
                ),
                orders.about,
            )
        ended_s = walked.stopped_s
        self._out_of_memory(orders, np.flatnonzero(timeline.received), ended_s)
        self._end(orders, timeline, np.arange(clients.size), ended_s)
        self._rest(
            clients, ended_s, ended_s - timeline.last_message_s, timeline.ends.present_until_s
        )
        received(np.flatnonzero(timeline.received))
        computed(np.arange(clients.size), timeline.computed_s)
        return self._dispatched(orders, timeline, ended_s)

    def _step(
        self,
        orders: Orders,
        plan: RoundPlan,
        timeline: Timeline,
        limits: Limits,
        received: Received,
        computed: Computed,
    ) -> Dispatched:
        """Rounds over shared channels: one process per client, ends become known as they happen."""
        clients, world = orders.clients, orders.world
        self._log.add(self._rested(clients))
        self._idle.busy(clients, np.inf)
        found = self._dispatched(orders, timeline, np.full(clients.size, np.inf))
        entry = Entry(timeline, orders.about, orders.query)

        def over(place: int, stage: int) -> None:
            if stage == DOWNLOAD and timeline.received[place]:
                received(np.array([place]))
                self._out_of_memory(
                    orders, np.array([place]), np.full(clients.size, self._clock.now_s)
                )

        def begun(place: int, stage: int, ends_s: float) -> None:
            if stage == COMPUTE:
                computed(np.array([place]), np.array([ends_s]))

        def done(place: int) -> None:
            free_s = self._clock.now_s
            found.ends(place, free_s)
            self._end(orders, timeline, np.array([place]), np.array([free_s]))
            if found.over:
                self.booking.finished(entry)
            radio_idle_s = free_s - float(timeline.last_message_s[place])
            self._free(
                int(clients[place]), radio_idle_s, float(timeline.ends.present_until_s[place])
            )
            found.tell(place)

        about, load = (clients, orders.numbers), orders.load
        messages = (load.down_bytes, False, plan.download), (load.up_bytes, True, plan.upload)
        down, up = (
            world.messenger.senders(*about, raw, uplink, orders.server, sent)
            for raw, uplink, sent in messages
        )
        sending = Sending({DOWNLOAD: down, UPLOAD: up}, world.air(clients, orders.server))
        listeners = Listeners(over, begun, done, found.pauses)
        self._stepped(plan.segments, clients, entry, limits, sending, listeners)
        return found

    def _end(
        self, orders: Orders, timeline: Timeline, places: IntArray, ends_s: FloatArray
    ) -> None:
        """The rounds of `places` end. Counts them, except those that fail for lack of memory."""
        has_memory = orders.lacking_bytes[places] == 0
        if after_s := self._world.noticed_after_s:
            gone = np.isinf(timeline.arrives_s[places]) & has_memory
            self.fates.given_up_s[timeline.actors[places[gone]]] = ends_s[gone] + after_s
        if not orders.query:
            ended = places[has_memory]
            tails_j = self._idle.tails_j[timeline.actors[ended]]
            self.fates.end(timeline, ended, ends_s[has_memory], tails_j, orders.numbers[ended])

    def _out_of_memory(self, orders: Orders, places: IntArray, times_s: FloatArray) -> None:
        """End the rounds of those of `places` that have the model but lack memory to train it."""
        lacking_bytes = orders.lacking_bytes
        for place in places[lacking_bytes[places] > 0].tolist():
            about = float(times_s[place]), float(lacking_bytes[place]), orders.about
            self.booking.out_of_memory(int(orders.clients[place]), *about)

    def receive(
        self, clients: IntArray, message: Transmission, version: int, round_number: int
    ) -> None:
        """Sends each client a message outside its rounds, over a dedicated link, once it is free.

        An empty battery gives no energy for it, but does not interrupt it.
        """
        now_s = self._clock.now_s
        waited = self._rested(clients)
        start_s = np.maximum(self.free_s(clients), now_s)
        walked = walk(message.segments, clients, start_s, self._unlimited(clients))
        timeline = Timeline(clients, {DOWNLOAD: message})
        timeline.take(walked)
        self._log.advance(now_s)
        about = {"version": version, "round": round_number}
        self._log.add(waited)
        self.booking.ahead(Entry(timeline, about, walked=walked), now_s)
        ended_s = walked.stopped_s
        self._rest(clients, ended_s, ended_s - timeline.last_message_s)

    def take(
        self, client: int, raw_bytes: int, number: Callable[[], int], about: dict[str, int]
    ) -> simpy.Event:
        """Sends a client a message outside its rounds, over a shared channel, once it is free.

        The event happens when it arrives. Lost messages are sent again; `number()` addresses the
        random draws of each attempt.
        """
        message = OutOfRoundMessage(raw_bytes, number, about, self._clock.env.event())
        self._out_of_round.setdefault(client, deque()).append(message)
        if self._idle.free_s(np.array([client]))[0] <= self._clock.now_s:
            self._next_message(client)
        return message.done

    def abandon(self, server: ServerId, updates: int, least: int, about: dict[str, int]) -> None:
        """A server gives a round up that has fewer updates than `least`."""
        self._servers.note(server, "given_up", {"needed": least}, value=float(updates), **about)

    def close(self, now_s: float) -> list[Rows]:
        """The run ends: books waits, then writes rows of everything in progress."""
        under_way = self.booking.close(now_s)
        self._log.add(self._idle.until_now(self._idle.waiting(now_s)))
        return under_way

    def settle(self) -> None:
        """Writes the rows of what has ended by now: stages, tails, waits with an empty battery."""
        now_s = self._clock.now_s
        self.booking.flush()
        self._idle.settle(now_s)
        if self._presence.charge is not None:
            off = self._presence.charge.settle(self._idle.waiting(now_s), now_s)
            self._log.add(self._idle.until_now(off))

    def _free(self, client: int, radio_idle_s: float, present_until_s: float = np.inf) -> None:
        """A stepped round or message ends now: the client takes its next message, or rests."""
        self._rest(np.array([client]), np.array([self._clock.now_s]), radio_idle_s, present_until_s)
        if client in self._out_of_round:
            self._next_message(client)
            return
        freed, self._freed = self._freed, self._clock.env.event()
        freed.succeed()

    def wasted_active_j(self) -> float:
        """Joules above idle power of rounds that have ended without a merged update (`Fates`)."""
        return self.fates.wasted_active_j(self._clock.now_s, self._idle.tails_j)

    def _rested(self, clients: IntArray) -> Rows:
        """Clients begin something now: the rows of their rest until now."""
        rows = self._idle.until_now(clients)
        self.fates.begun(clients, self._idle.tails_j[clients])
        return rows

    def _rest(
        self,
        clients: IntArray,
        from_s: FloatArray,
        radio_idle_s: FloatArray | float,
        present_until_s: FloatArray | float = np.inf,
    ) -> None:
        """Clients rest from then on; their last messages ended this long before (inf: asleep)."""
        self._idle.free(clients, from_s, radio_idle_s, present_until_s)

    def _next_message(self, client: int) -> None:
        """A free client begins to take its next message."""
        waiting = self._out_of_round[client]
        message = waiting.popleft()
        if not waiting:
            del self._out_of_round[client]
        who = np.array([client])
        self._log.add(self._rested(who))
        radio_idle_s = self._idle.radio_idle_s(who, self._clock.now_s)
        self._idle.busy(who, np.inf)
        self._clock.env.process(self._deliver(client, message, radio_idle_s))

    def _deliver(
        self, client: int, message: OutOfRoundMessage, radio_idle_s: FloatArray
    ) -> Generator[simpy.Event, Any, None]:
        """Sends a message until it has arrived; raises `Stalled` if it never does."""
        messenger, who = self._world.messenger, np.array([client])
        for _ in range(MOST_FAILURES):
            about = who, np.array([message.number()]), message.raw_bytes, False
            sent = messenger.access(*about, CLOUD.access_point, radio_idle_s)
            senders = {DOWNLOAD: messenger.senders(*about, CLOUD, sent)}
            entry = Entry(Timeline(who, {DOWNLOAD: sent}), message.about)
            over = self._clock.env.event()
            self._stepped(
                sent.segments,
                who,
                entry,
                self._unlimited(who),
                Sending(senders, self._world.air(who, CLOUD)),
                Listeners.when_done(over),
            )
            yield over
            self.booking.finished(entry)
            radio_idle_s = sent.since_last_attempt_s
            if not sent.failed[0]:
                break
        else:
            raise Stalled(
                f"a message to client {client} was lost {MOST_FAILURES} times in a row, after all"
                " attempts; check the population's message_loss"
            )
        self._free(client, float(radio_idle_s[0]))
        message.done.succeed()

    def _stepped(
        self,
        segments: Segments,
        clients: IntArray,
        entry: Entry,
        limits: Limits,
        sending: Sending,
        listeners: Listeners,
    ) -> None:
        """Starts one process per client, which steps through its column of `segments`."""
        Stepped(
            segments,
            clients,
            entry,
            limits,
            sending,
            self._channels,
            self.booking,
            self._depletion,
            self._clock,
            listeners,
        )

    def _unlimited(self, clients: IntArray) -> Limits:
        """The limits of messages outside rounds: nothing ends them."""
        return Limits.none(clients.size, self._presence.charge)

    def _dispatched(self, orders: Orders, timeline: Timeline, ends_s: FloatArray) -> Dispatched:
        idle_w = self._world.power_idle_w[orders.clients]
        return Dispatched(
            timeline,
            idle_w,
            ends_s,
            self._world.noticed_after_s,
            orders.lacking_bytes > 0,  # such a client says so at once
            self._servers,
            orders.server,
            self._clock,
        )

    def _check_ends(self, clients: IntArray, plan: RoundPlan) -> None:
        stages_s = np.stack([plan.download_s, plan.compute_s, plan.upload_s])
        endless = np.flatnonzero(~(self._clock.now_s + stages_s.sum(axis=0) <= LATEST_S))
        if endless.size:
            first = endless[0]
            download_s, compute_s, upload_s = stages_s[:, first].tolist()
            raise Stalled(
                f"stalled at {self._clock.now_s:g} s: a round of client {clients[first]} would"
                f" take {download_s:g} s to download, {compute_s:g} s to compute and {upload_s:g} s"
                " to upload; check the population's rates, clock frequencies and spreads"
            )
