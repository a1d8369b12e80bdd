"""Client rounds: download, train, upload; and which clients the server waits for."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.common.notices import Notice
from simfl.eventlog.rows import Rows
from simfl.learning.job import Prices
from simfl.protocols.allocating import Allocating
from simfl.protocols.deadline_policy import UNLIMITED, DeadlinePolicy
from simfl.protocols.deciders import Deciders
from simfl.protocols.deliveries import Delivered
from simfl.protocols.dispatched import Dispatched
from simfl.protocols.dispatcher import Computed, Dispatcher, Orders, Workload
from simfl.protocols.exchanges import Exchanges
from simfl.protocols.fates import Absences, Waits
from simfl.protocols.late import Late
from simfl.protocols.learned_values import LearnedValues
from simfl.protocols.observations import Observations
from simfl.protocols.queries import Queries
from simfl.protocols.servers import Crashed
from simfl.protocols.setting import Setting
from simfl.protocols.state_ref import StateRef
from simfl.system.presence import Presence
from simfl.system.processor import TRAINING_FLOPS_PER_FORWARD
from simfl.system.server_id import CLOUD, ServerId


@dataclass(eq=False)
class _History:
    """Per client: rounds begun so far, and the version received last (-1: none)."""

    rounds: IntArray
    version: IntArray


class ClientRounds:
    """Dispatches clients, submits their jobs and collects their updates."""

    def __init__(
        self,
        setting: Setting,
        dispatcher: Dispatcher,
        presence: Presence,
        queries: Queries,
        values: LearnedValues,
        deciders: Deciders,
        observations: Observations,
        num_examples: IntArray,
    ) -> None:
        clients = setting.world.num_clients
        self._setting = setting
        self._dispatcher = dispatcher
        self._queries = queries
        self._values = values
        self._allocating = Allocating(deciders, observations, setting)
        self._needs_losses = deciders.selection.needs_losses
        self._observations = observations
        self._num_examples = num_examples
        self._history = _History(np.zeros(clients, dtype=np.int64), np.full(clients, -1))
        self._under_way: dict[int, Dispatched] = {}
        self._late = Late(observations, setting.log)
        self.exchanges = Exchanges(
            self._begin, dispatcher, presence, observations, setting.clock, self._frequency_hz
        )

    @property
    def warnings(self) -> list[Notice]:
        """The warnings of the allocation, of shortened waits, and of rounds given up."""
        return [*self._allocating.warnings, *self._dispatcher.fates.waits.warnings()]

    def fates(self) -> dict[str, int]:
        """The number of rounds that have ended by now, by fate (`FATES`)."""
        return self._dispatcher.fates.counts(self._setting.clock.now_s)

    @property
    def waits(self) -> Waits:
        """How servers' waits ended."""
        return self._dispatcher.fates.waits

    def emptied(self) -> IntArray:
        """How many of each client's rounds an empty battery has ended by now."""
        return self._dispatcher.fates.emptied(self._setting.clock.now_s)

    def absences(self) -> Absences:
        """The absences of clients in rounds that have ended by now."""
        return self._dispatcher.fates.absences(self._setting.clock.now_s)

    def wasted_active_j(self) -> float:
        """Joules above idle power of rounds that ended without a merged update (`Fates`)."""
        return self._dispatcher.wasted_active_j()

    def radio_idle_s(self, clients: IntArray) -> FloatArray:
        """Seconds since each client's last message, now or when it will be free; inf: asleep."""
        return self._dispatcher.radio_idle_s(clients)

    def together(
        self,
        clients: IntArray,
        ref: StateRef,
        round_number: int,
        server: ServerId,
        policy: DeadlinePolicy | None,
    ) -> Generator[simpy.Event, Any, Delivered]:
        """Dispatches clients now; ends when `policy` does (None: with their last upload).

        Delivers the updates that have arrived by then. With `policy` they are a round, whose
        updates are aggregated together: it is given up, and nothing is delivered, if too few
        arrived or were selected for the policy or the algorithm. Without `policy` that holds only
        if enough clients were dispatched for the algorithm. Raises ValueError for a client that is
        still busy, and `Crashed` if the edge server fails meanwhile.
        """
        delivered = yield from self._there(clients, ref, round_number, server, policy or UNLIMITED)
        least = self._values.min_updates
        if policy is not None:
            self._dispatcher.fates.waits.closed()
            least = max(least, policy.least_updates or 0)
        if delivered.clients.size < least and (policy is not None or least <= clients.size):
            self._observations.drop(delivered.clients, delivered.active_j, delivered.rounds)
            if policy is not None and (delivered.clients.size or policy.least_updates):
                about = {"version": ref.version, "round": round_number}
                self._dispatcher.fates.waits.abandoned()
                self._dispatcher.abandon(server, delivered.clients.size, least, about)
            delivered = delivered.take(np.zeros(delivered.clients.size, dtype=bool))
        self._dispatcher.fates.received(server, delivered)
        if self._needs_losses:
            fresh = delivered.clients[delivered.versions == ref.version]
            loss = self._values.losses(ref, fresh, self._setting.clock.now_s)
            self._observations.losses(fresh, loss)
        return delivered

    def _there(
        self,
        clients: IntArray,
        ref: StateRef,
        round_number: int,
        server: ServerId,
        policy: DeadlinePolicy,
    ) -> Generator[simpy.Event, Any, Delivered]:
        """The updates that have arrived when `policy` ends; none if all messages were lost."""
        now_s, history = self._setting.clock.now_s, self._history
        self._observations.take_in(now_s)
        self._lose_carried(server)
        rounds, held = history.rounds[clients], history.version[clients]
        history.rounds[clients] += 1
        futures = self._values.submit(clients, rounds, ref, held)
        prices = self._values.prices(clients, futures, ref, held)
        examples, steps, factor = self._training(clients, rounds, ref.version, prices)
        held_bytes = self._queries.brought(clients, ref, server)
        load = Workload(
            examples,
            steps,
            self._values.work,
            np.maximum(prices.down_bytes - held_bytes, 0),
            prices.up_bytes,
            self._allocating.frequency_hz(clients, factor, round_number, server),
        )
        world = self._setting.world
        orders = Orders(world, clients, rounds, load, ref.version, round_number, server)

        def computed(places: IntArray, times_s: FloatArray) -> None:
            ended = futures and [futures[place] for place in places]
            self._values.computed(clients[places], ended, times_s)

        def received(places: IntArray) -> None:
            history.version[clients[places]] = ref.version

        cohort = self._dispatcher.dispatch(orders, received, computed)
        self._under_way[id(cohort)] = cohort
        versions = np.full(clients.size, ref.version, dtype=np.int64)

        def delivered(which: BoolArray) -> Delivered:
            sent = Delivered(clients, versions, prices.up_bytes, futures, cohort.spent_j, rounds)
            return sent if which.all() else sent.take(which)

        with self._setting.clock.waiting(str(server), f"{clients.size} clients' uploads"):
            try:
                closed_s = yield from cohort.closed(policy, self._values.min_updates)
            except Crashed:
                del self._under_way[id(cohort)]
                there = cohort.arrives_s <= self._setting.clock.now_s
                self._observations.finished(cohort.reports(there))
                self._dispatcher.fates.received(server, delivered(there))
                raise
        del self._under_way[id(cohort)]
        if not self._setting.world.noticed_after_s:
            self.waits.waited(closed_s, shortened=cohort.given_up(closed_s))
        if not server.is_edge:
            self._observations.arrived(server, self._setting.clock.now_s - now_s)
        carried = self._late.carried(server, closed_s)

        def late(which: BoolArray) -> None:
            stragglers, reports = delivered(which), cohort.reports(which)
            fails_s = self._dispatcher.fails_s(server)
            self._late.expect(stragglers, reports, closed_s, round_number, server, fails_s, policy)
            if policy.late == "carry_over":
                self._dispatcher.fates.carry(stragglers.clients)

        cohort.follow(closed_s, late)
        there = cohort.arrives_s <= closed_s
        self._observations.finished(cohort.reports(there))
        arrived = delivered(there)
        return Delivered.join([arrived, *carried]) if carried else arrived

    def _begin(
        self,
        clients: IntArray,
        load: Workload,
        version: int,
        round_number: int,
        computed: Computed,
    ) -> Dispatched:
        """Clients begin rounds for the cloud with contents from outside the run; does not wait.

        Raises ValueError for a client that is still busy.
        """
        rounds = self._history.rounds[clients]
        self._history.rounds[clients] += 1
        orders = Orders(self._setting.world, clients, rounds, load, version, round_number, CLOUD)
        return self._dispatcher.dispatch(orders, _not_told, computed)

    def _training(
        self, clients: IntArray, rounds: IntArray, version: int, prices: Prices
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Examples and steps of these rounds, and how many times plain training they take."""
        held = self._num_examples[clients]
        trained = self._values.trained(clients, rounds, held, version)
        examples, steps = (amount * prices.work for amount in trained)
        if prices.operations.any():
            of_one = TRAINING_FLOPS_PER_FORWARD * self._values.work.forward_flops
            examples = examples + prices.operations / of_one
        plain = self._values.plain_work(held, version)
        return examples, steps, self._times_plain(clients, (examples, steps), plain)

    def _times_plain(
        self,
        clients: IntArray,
        training: tuple[FloatArray, FloatArray],
        plain: tuple[FloatArray, FloatArray],
    ) -> FloatArray:
        """How many times the cycles of plain training a training takes; both (examples, steps).

        The fixed time of a training is spent once, whatever the work.
        """
        if all(np.array_equal(*both) for both in zip(training, plain, strict=True)):
            return np.ones(clients.size)
        world, work = self._setting.world, self._values.work
        cycles, of_plain = (
            world.cycles(clients, rows, work, steps, rows > 0) for rows, steps in (training, plain)
        )
        return np.divide(cycles, of_plain, out=np.ones(clients.size), where=of_plain > 0)

    def _frequency_hz(self, clients: IntArray, round_number: int) -> FloatArray:
        """The frequency of each client in such a round."""
        return self._allocating.frequency_hz(clients, np.ones(clients.size), round_number, CLOUD)

    def close(self, now_s: float) -> list[Rows]:
        """The run ends: counts rounds that end by now; writes rows of everything in progress."""
        self._observations.take_in(now_s)
        for cohort in self._under_way.values():
            self._observations.finished(cohort.reports(cohort.arrives_s <= now_s))
        self._under_way.clear()
        return self._dispatcher.close(now_s)

    def reported(self, server: ServerId) -> None:
        """An edge server has passed on what it had."""
        self._dispatcher.fates.reported(server)

    def forget(self, server: ServerId) -> None:
        """An edge server has lost what it had not passed on and what it would have carried over."""
        self._lose_carried(server)
        self._dispatcher.fates.crashed(server)

    def _lose_carried(self, server: ServerId) -> None:
        """Late updates that a server has lost by failing were in vain."""
        for lost in self._late.forget(server, self._setting.clock.now_s):
            self._dispatcher.fates.lose_carried(lost)


def _not_told(places: IntArray) -> None:
    """Does nothing: the sender of the messages knows who has received what."""
