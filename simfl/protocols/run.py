"""One run: the methods that a protocol calls, with their costs.

Every method that takes simulated time is a generator, to be driven with `yield from`; all
activities are booked as rows of the event log, for the device that spends the time and energy.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
import simpy
from numpy.typing import ArrayLike

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.common.notices import Notice
from simfl.eventlog.accounts import Accounts
from simfl.eventlog.kinds import Actors
from simfl.eventlog.log import EventLog
from simfl.protocols.aggregation import Aggregation
from simfl.protocols.broadcasts import Broadcasts
from simfl.protocols.client_rounds import ClientRounds
from simfl.protocols.clock import Clock
from simfl.protocols.deadline_policy import DeadlinePolicy
from simfl.protocols.deciders import Deciders
from simfl.protocols.deliveries import Delivered
from simfl.protocols.dispatcher import Dispatcher
from simfl.protocols.exchanges import Exchanges
from simfl.protocols.expectations import expectations
from simfl.protocols.fates import Absences, Fates
from simfl.protocols.given import numbers_of, whole
from simfl.protocols.learned_values import LearnedValues
from simfl.protocols.membership import Membership
from simfl.protocols.observations import Observations
from simfl.protocols.oracle import Radios, WorldExpectations
from simfl.protocols.plain_rounds import PlainRounds
from simfl.protocols.publication import Publications
from simfl.protocols.publisher import Publisher
from simfl.protocols.queries import Queries
from simfl.protocols.scheduler import Scheduler
from simfl.protocols.selecting import Selecting
from simfl.protocols.servers import Servers
from simfl.protocols.setting import Setting
from simfl.protocols.stall_guard import StallGuard
from simfl.protocols.state_ref import StateRef
from simfl.protocols.wait_for import ANYBODY, WaitFor
from simfl.system.failures import Failures
from simfl.system.presence import Presence
from simfl.system.server_id import CLOUD, ServerId
from simfl.system.world import World

Waiting = Generator[simpy.Event, Any, Any]


class Run:
    """The state of a running simulation, and the methods of every protocol."""

    def __init__(
        self,
        setting: Setting,
        presence: Presence,
        server_failures: tuple[Failures, Failures],
        values: LearnedValues,
        deciders: Deciders,
        members: Membership,
        publications: Publications,
        checkpoint: Callable[[LearnedValues], None] | None = None,
    ) -> None:
        world, streams, log, clock = setting.world, setting.streams, setting.log, setting.clock
        data = members.num_examples
        self._setting = setting
        self._members = members
        self.values = values
        fates = Fates(world.num_clients)
        self.observations = Observations(
            world, data, members.edge, deciders.estimator, presence, fates
        )
        self._servers = Servers(world, log, clock, server_failures)
        self.aggregation = Aggregation(
            values,
            self._servers,
            deciders.staleness,
            members.edge_examples,
            setting.declared.takes_stale_updates,
        )
        self._stall_guard = StallGuard()
        seen = self.observations
        dispatcher = Dispatcher(world, log, clock, presence, self._servers, fates)
        queries = Queries(world, values, dispatcher, seen, data, streams, clock)
        self._client_rounds = ClientRounds(
            setting, dispatcher, presence, queries, values, deciders, seen, data
        )
        self.forwards = Broadcasts(world, values, dispatcher, clock)
        self._scheduler = Scheduler(deciders.scheduling, self._servers, seen, streams, clock)
        self._publisher = Publisher(
            setting.declared,
            values,
            publications,
            self.aggregation,
            dispatcher,
            self._servers,
            log,
            clock,
            checkpoint,
        )
        self._selecting = Selecting(
            deciders.selection,
            presence,
            self._servers,
            values,
            seen,
            dispatcher,
            queries,
            streams,
            clock,
        )

    @property
    def world(self) -> World:
        """The machines."""
        return self._setting.world

    @property
    def clock(self) -> Clock:
        """Simulated time."""
        return self._setting.clock

    @property
    def log(self) -> EventLog:
        """The event log."""
        return self._setting.log

    @property
    def publications(self) -> Publications:
        """The versions published so far."""
        return self._publisher.publications

    @property
    def exchanges(self) -> Exchanges:
        """Messages from outside simfl, and their answers."""
        return self._client_rounds.exchanges

    @property
    def edge(self) -> IntArray:
        """Each client's edge server."""
        return self._members.edge

    @property
    def edges(self) -> Sequence[int]:
        """Edge servers that have clients, ascending."""
        return self._members.edges

    @property
    def all_clients(self) -> IntArray:
        """The numbers of all clients."""
        return self._members.all_clients

    @property
    def env(self) -> simpy.Environment:
        """The SimPy environment."""
        return self.clock.env

    @property
    def actors(self) -> Actors:
        """The numbers of the devices in the log."""
        return self.log.actors

    @property
    def accounts(self) -> Accounts:
        """Seconds, joules and bytes so far."""
        return self.log.accounts

    @property
    def warnings(self) -> list[Notice]:
        """The warnings so far."""
        noticed = (self._scheduler, self._selecting, self._client_rounds)
        found = [notice for one in noticed for notice in one.warnings]
        return [*found, *self.values.notices()]

    @property
    def fates(self) -> dict[str, int]:
        """The number of clients' rounds that have ended, by fate (`fates.FATES`)."""
        return self._client_rounds.fates()

    @property
    def emptied(self) -> IntArray:
        """How many of each client's rounds an empty battery has ended."""
        return self._client_rounds.emptied()

    @property
    def absences(self) -> Absences:
        """The absences of clients in rounds that have ended."""
        return self._client_rounds.absences()

    @property
    def wasted(self) -> dict[str, float]:
        """Client rounds that have ended, how many brought no merged update, and their joules.

        The joules are those above idle power, with the radio's tail after the round.
        """
        fates, dropped = self.fates, int(self.observations.dropped.sum())
        ended = sum(fates.values())
        return {
            "client_rounds": ended,
            "wasted_rounds": ended - fates["arrived"] + dropped,
            "wasted_active_j": self._client_rounds.wasted_active_j(),
        }

    @property
    def laws(self) -> dict[str, bool]:
        """The conservation laws checked by the accounts; {} while the run continues."""
        return self.accounts.laws

    @property
    def owed(self) -> tuple[FloatArray, IntArray]:
        """The share of picks that the scheduling rule owes each edge server, and the picks."""
        return self._scheduler.owed, np.array(self._scheduler.picked, dtype=np.int64)

    def members(self, edge: int) -> IntArray:
        """The clients of an edge server."""
        return self._members.of(edge)

    def begin(self, tier: str) -> StateRef:
        """The state of a server with all clients, before training."""
        return self.values.begin(self.all_clients.tolist(), tier)

    def begin_edge(self, edge: int) -> StateRef:
        """The state of an edge server with its clients, before training."""
        return self.values.begin(self._members.of(edge).tolist(), f"edge-{edge}")

    def expect(
        self,
        ref: StateRef,
        *,
        edge_rounds: int = 1,
        concurrency: int | None = None,
        in_flight: int | None = None,
    ) -> None:
        """Sets the servers' prior for a dispatch of `edge_rounds` rounds, before the start.

        Decisions see it in their view: nominal cycles and durations. A protocol that does not call
        this has the prior of a flat server's rounds, from its first selection or dispatch on.
        With `concurrency`, the edge servers in flight, the log has whether each of them can get the
        participation that the scheduling rule owes it; if not, the manifest warns. `in_flight` is
        the number of clients in flight of a flat server that dispatches them one by one.
        """
        plain_rounds = PlainRounds(
            self.world,
            *self.values.plain_work(self._members.num_examples, ref.version),
            self.values.work,
            self.values.tier_price(ref),
            self.edge,
            flat=not self.accounts.present[self.actors.edge(0)],
        )
        wanted = self._selecting.wanted

        def together(clients: int) -> int:
            return min(in_flight or wanted(clients), clients)

        expected = expectations(plain_rounds, edge_rounds, together)
        self.observations.expect(expected)
        if expected.detail is not None:
            self._servers.note(CLOUD, "expectation", expected.detail)
        if self.observations.needs_world:
            radios = Radios(self._client_rounds.radio_idle_s, self._servers.radio_idle_s)
            about = self.values, ref, edge_rounds, together, radios, in_flight
            self.observations.consult(WorldExpectations(plain_rounds, *about))
        if concurrency is not None:
            self._scheduler.check_attainable(expected.latency_s[:-1], concurrency)

    def select(
        self,
        ref: StateRef,
        clients: IntArray,
        round_number: int,
        edge: int | None = None,
        wait_s: float | None = None,
        wait_for: WaitFor = ANYBODY,
        *,
        one: bool = False,
        unless: simpy.Event | None = None,
    ) -> Generator[simpy.Event, Any, IntArray]:
        """Selects clients for this round; waits until enough of `clients` are available.

        If no client is available after `wait_s` it gives up and selects none. A selection that
        queries clients first waits for their answers; clients that have left by then, or did not
        answer, do not take part, and others are queried if none is left. `one`: the caller
        dispatches only one of the selected clients. If `unless` happens while no client is
        available, none is selected, because the caller has others to choose from. Raises `Stalled`
        if it gave up and no client of any server will ever be available.
        """
        server = ServerId.of(edge)
        if not self.observations.expects:
            self.expect(ref)
        chosen, detail = yield from self._selecting.choose(
            ref,
            clients,
            whole("round_number", round_number),
            server,
            wait_s,
            wait_for,
            one=one,
            unless=unless,
        )
        if unless is not None and not chosen.size:
            return chosen
        about = {"version": ref.version, "round": round_number, "value": float(chosen.size)}
        self._servers.note(server, "select", detail, **about)
        return chosen

    def client_rounds(
        self,
        clients: IntArray,
        ref: StateRef,
        round_number: int,
        edge: int | None = None,
        patience: DeadlinePolicy | None = None,
    ) -> Generator[simpy.Event, Any, Delivered]:
        """Clients download, train and upload in parallel; returns the updates when `patience` ends.

        With `patience` they are a round, whose updates are aggregated together: it is given up, and
        nothing is returned, if too few arrived or were selected for `patience` or the algorithm.
        Without, that holds only if enough clients were dispatched for the algorithm.
        """
        server, chosen = ServerId.of(edge), numbers_of(clients, self.world.num_clients)
        number = whole("round_number", round_number)
        if not self.observations.expects:
            self.expect(ref)
        if self._setting.declared.is_own:
            self._selecting.dispatched(chosen)
        return self._client_rounds.together(chosen, ref, number, server, patience)

    def arrived(self, delivered: Delivered) -> bool:
        """Whether anything arrived; raises `Stalled` if nothing ever does."""
        self._stall_guard.round(delivered.clients.size)
        return delivered.clients.size > 0

    def working(self, edge: int) -> Waiting:
        """Waits until an edge server works."""
        return self._servers.working(edge)

    def working_edges(self) -> Generator[simpy.Event, Any, list[int]]:
        """The edge servers with clients that work now; waits until at least one does."""
        while True:
            works_s = {edge: self._servers.works_s(edge) for edge in self.edges}
            working = [edge for edge, at_s in works_s.items() if at_s <= self.clock.now_s]
            for edge, at_s in works_s.items():
                if at_s > self.clock.now_s:
                    self._servers.note_failure(edge)
            if working:
                return working
            with self.clock.waiting("the cloud", "the repair of an edge server"):
                yield self.clock.until(min(works_s.values()))

    def noticed_at_once(self) -> None:
        """The cloud stops waiting for an edge server at the moment when that crashes."""
        self._client_rounds.waits.waited(self.clock.now_s, shortened=True)

    def reported(self, edge: int) -> None:
        """An edge server's results are at the cloud, or it has none."""
        self._client_rounds.reported(ServerId(edge))
        self.aggregation.reported(edge)

    def crashed(self, edge: int) -> None:
        """An edge server has lost its unsent results; raises `Stalled` if that never ends."""
        self._client_rounds.forget(ServerId(edge))
        self.aggregation.reported(edge, lost=True)
        self._stall_guard.crash()

    def aggregate(
        self, ref: StateRef, delivered: Delivered, round_number: int, edge: int | None = None
    ) -> Generator[simpy.Event, Any, StateRef]:
        """The server aggregates the delivered updates; returns its next state."""
        return self.aggregation.aggregate(ref, delivered, round_number, ServerId.of(edge))

    def merge(
        self, ref: StateRef, edge: int, lower: StateRef, staleness: int, round_number: int
    ) -> Generator[simpy.Event, Any, StateRef]:
        """The cloud mixes in an edge server's state (`Aggregation.merge`)."""
        return self.aggregation.merge(ref, edge, lower, staleness, round_number)

    def backhaul(self, edge: int, ref: StateRef, round_number: int, *, uplink: bool) -> Waiting:
        """Sends a model between an edge server and the cloud."""
        price = self.values.tier_price(ref)
        raw_bytes = price.up_bytes if uplink else price.down_bytes
        yield from self._servers.send(edge, raw_bytes, ref.version, round_number, uplink=uplink)

    def schedule(self, idle: BoolArray, round_number: int) -> int:
        """Picks the idle edge server that the cloud dispatches now."""
        return self._scheduler.next(idle, round_number)

    def publish(
        self,
        ref: StateRef,
        round_number: int,
        participants: int,
        *,
        staleness: ArrayLike,
        edge: int | None = None,
    ) -> bool:
        """Publishes a new global version; returns whether the run ends with it.

        `participants` are the clients behind it, each once; `staleness` is that of every update (of
        a client or an edge server) that was merged since the last version, or one number if all are
        the same. Raises ValueError for a version that is not above the last one, and for figures
        that are not those of the run.
        """
        self._stall_guard.version()
        return self._publisher.publish(
            ref, round_number, participants, staleness=staleness, edge=edge
        )

    def note_start(self, edge: IntArray | None, departure: str | None) -> None:
        """Logs the association, and how the run departs from its algorithm's paper."""
        if edge is not None:
            self._servers.note(CLOUD, "associate", self._members.association)
        if departure is not None:
            self._servers.note(CLOUD, "departure", {"reason": departure})

    def close(self) -> None:
        """Ends the run now: books all waits, writes the log, checks the conservation laws."""
        now_s = self.clock.now_s
        under_way = [*self._client_rounds.close(now_s), *self._servers.close()]
        self.log.finish(now_s, under_way)
        self.accounts.close(now_s)
