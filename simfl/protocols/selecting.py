"""Drives the selection rule: waits for clients, queries them if needed, and selects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import simpy

from simfl.common.arrays import BoolArray, IntArray
from simfl.common.contract import at_work, is_users_own, named
from simfl.common.notices import Notice, notice
from simfl.decisions.asked import enough_for, wanted_by
from simfl.decisions.base import QueryingSelection, Selection
from simfl.decisions.sampling import CountedSelection
from simfl.protocols.choice import numbers_among
from simfl.protocols.clock import Clock, Stalled
from simfl.protocols.dispatcher import Dispatcher
from simfl.protocols.learned_values import LearnedValues
from simfl.protocols.observations import Observations
from simfl.protocols.queries import Queries
from simfl.protocols.servers import MOST_FAILURES, Servers
from simfl.protocols.state_ref import StateRef
from simfl.protocols.wait_for import ANYBODY, WaitFor
from simfl.streams import Streams
from simfl.system.presence import Presence
from simfl.system.server_id import ServerId

MOST_GIVEN_UP = 30_000
"""The most rounds in a row without a client: a night of ten edge servers that wait for 15 s each.
"""

MOST_LOOKS = 30_000
"""The most looks of a server for its clients before one selection: seven weeks with 60 phones that
each become available ten times a day."""

MOST_LISTED = 50
"""The most clients that the log lists of a choice from which one is dispatched."""


@dataclass
class _OfServer:
    """The record of one server: its counts of choices and queries, and the rule's memory.

    `waited_s` is how long it has waited for available clients while none was at work, `since_s`
    since when it does so now (NaN: it does not). `in_vain` counts in a row how often no client was
    available when one was expected, `looked_s` is the last such time.
    """

    count: int = 0
    decided: bool = False
    memory: Any = None
    waited_s: float = 0.0
    since_s: float = np.nan
    in_vain: int = 0
    looked_s: float = -np.inf

    def waits_s(self, now_s: float) -> float:
        """The beginning of its wait: now, if it does not wait yet."""
        return now_s if np.isnan(self.since_s) else self.since_s

    def next_count(self) -> int:
        """The number of the next choice or query."""
        self.count += 1
        return self.count - 1


@dataclass
class _Choice:
    """A choice in progress: its candidates, memory and number, and the query's results."""

    players: IntArray
    memory: Any = None
    count: int = 0
    asked: int = 0
    waited_s: float = 0.0


@dataclass
class _Odd:
    """The number of rounds with one kind of oddity, and the time of the first."""

    rounds: int = 0
    odd: int = 0
    first_s: float | None = None

    def count(self, odd: bool, now_s: float) -> None:
        """Counts one more round."""
        self.rounds += 1
        if odd and not self.odd:
            self.first_s = now_s
        self.odd += odd

    def told(self, kind: str, message: str) -> Iterator[Notice]:
        """A warning with this count, if there is anything to warn of."""
        if self.odd:
            yield notice(kind, message, self.odd, self.first_s)


@dataclass(frozen=True)
class _Oddities:
    """Counts of rounds with too few clients or long waits, and of selections without a choice.

    `small` and `large`: rounds with fewer or more clients than the count or share of the available
    ones; `no_losses`: choices by losses that no client reports; `absent`: client rounds of clients
    that could not be selected.
    """

    starved: _Odd = field(default_factory=_Odd)
    small: _Odd = field(default_factory=_Odd)
    large: _Odd = field(default_factory=_Odd)
    no_choice: _Odd = field(default_factory=_Odd)
    waiting: _Odd = field(default_factory=_Odd)
    no_losses: _Odd = field(default_factory=_Odd)
    absent: _Odd = field(default_factory=_Odd)


class Selecting:
    """Drives the selection rule, with one memory and one count of choices per server."""

    def __init__(
        self,
        selection: Selection,
        presence: Presence,
        servers: Servers,
        values: LearnedValues,
        observations: Observations,
        dispatcher: Dispatcher,
        queries: Queries,
        streams: Streams,
        clock: Clock,
    ) -> None:
        self._selection = selection
        self._presence = presence
        self._servers = servers
        self._values = values
        self._observations = observations
        self._dispatcher = dispatcher
        self._queries = queries
        self._streams = streams
        self._clock = clock
        self._servers_own: defaultdict[ServerId, _OfServer] = defaultdict(_OfServer)
        self._given_up = 0
        self._oddities = _Oddities()

    @property
    def warnings(self) -> list[Notice]:
        """Warnings of rounds with few clients (available or chosen), no choice, or long waits."""
        return [*self._odd(), *self._mostly_waiting()]

    def _odd(self) -> Iterator[Notice]:
        """The warnings of rounds and choices that were counted as odd."""
        starved, none = self._oddities.starved, self._oddities.no_choice
        yield from starved.told(
            "starved_rounds",
            f"{starved.odd} of {starved.rounds} rounds found fewer clients than they wanted: too"
            " few were available",
        )
        for kind, odd, how_many in (
            ("small_rounds", self._oddities.small, "fewer"),
            ("large_rounds", self._oddities.large, "more"),
        ):
            yield from odd.told(
                kind,
                f"in {odd.odd} of {odd.rounds} rounds the selection chose {how_many} clients than"
                " its count or share of the available ones",
            )
        absent, unasked = self._oddities.absent, self._oddities.no_losses
        yield from absent.told(
            "dispatched_absent",
            f"{absent.odd} of {absent.rounds} client rounds began with clients that were away, had"
            " crashed or had too low a battery",
        )
        if 2 * none.odd > none.rounds:
            yield from none.told(
                "no_choice",
                f"in {none.odd} of {none.rounds} choices the selection had no choice: no more"
                " clients were available and free than it had to choose",
            )
        yield from unasked.told(
            "no_losses",
            f"in {unasked.odd} of {unasked.rounds} choices {named(self._selection, 'decide')} read"
            " last_loss, which no client reports",
        )

    def dispatched(self, clients: IntArray) -> None:
        """Notes clients whom a protocol dispatches now, and which of them could not be selected."""
        now_s = self._clock.now_s
        for there in self._presence.there(clients, now_s).tolist():
            self._oddities.absent.count(not there, now_s)

    def _mostly_waiting(self) -> Iterator[Notice]:
        """The warning of the server that has waited longest, including a current wait."""
        waiting, now_s = self._oddities.waiting, self._clock.now_s
        servers = self._servers_own.items()
        under_way = [own.since_s for _, own in servers if own.since_s < now_s]
        longest = ((own.waited_s + now_s - own.waits_s(now_s), str(one)) for one, own in servers)
        waited_s, server = max(longest, default=(0.0, ""))
        if 2 * waited_s > now_s:
            message = f"for {waited_s:.4g} of {now_s:.4g} s {server} waited for clients to be"
            message += " available: time and idle energy mostly measure this wait"
            ended = [] if waiting.first_s is None else [waiting.first_s]
            first_s = min([*ended, *under_way])
            yield notice("mostly_waiting", message, waiting.odd + len(under_way), first_s)

    def wanted(self, players: int) -> int:
        """The number of clients that a round should have, out of `players`."""
        return wanted_by(self._selection, players)

    def choose(
        self,
        ref: StateRef,
        clients: IntArray,
        round_number: int,
        server: ServerId,
        wait_s: float | None,
        wait_for: WaitFor = ANYBODY,
        *,
        one: bool,
        unless: simpy.Event | None = None,
    ) -> Generator[simpy.Event, Any, tuple[IntArray, dict[str, Any]]]:
        """Selects clients out of `clients`; returns them, and the details of the choice.

        No clients, if none becomes available within `wait_s` (None: no limit), or before `unless`
        happens. With `one`, only one of them will be dispatched. Raises `Stalled` if no client of
        any server will ever be available.
        """
        began_s = self._clock.now_s
        selection, own = self._selection, self._servers_own[server]
        candidates = self._values.players(ref, clients)

        # Clients given here are not in flight; others may be at work meanwhile.
        nobody_at_work = not one or clients.size == self._observations.participations.size

        def available() -> Generator[simpy.Event, Any, IntArray]:
            since_s = self._clock.now_s
            own.since_s = since_s if nobody_at_work else np.nan
            try:
                return (
                    yield from self._available(
                        candidates, server, began_s, wait_s, wait_for, unless
                    )
                )
            finally:  # the server may fail meanwhile
                if nobody_at_work:
                    waited_s = self._clock.now_s - since_s
                    own.waited_s, own.since_s = own.waited_s + waited_s, np.nan
                    self._oddities.waiting.count(waited_s > 0, since_s)

        players = yield from available()
        waited_s = self._clock.now_s - began_s
        if not one:
            now_s, enough = self._clock.now_s, enough_for(selection, candidates.size)
            enough = max(enough, wait_for.wanted(candidates.size))
            self._oddities.starved.count(players.size < enough, now_s)
        # With clients in flight, the candidates are all clients that are not in flight.
        of = self._observations.participations.size if one else candidates.size
        takes_all = 0 < players.size <= wanted_by(selection, players.size)
        choosy = wanted_by(selection, of) < of
        self._oddities.no_choice.count(takes_all and choosy, self._clock.now_s)
        choice, asked = _Choice(players), dict[str, int]()
        if players.size:
            with at_work(selection, "initial"):
                choice.memory = own.memory if own.decided else selection.initial()
            choice.count = own.next_count()
            if isinstance(selection, QueryingSelection):
                yield from self._ask(selection, choice, available, (ref, round_number, server))
                asked, waited_s = {"asked": choice.asked}, waited_s + choice.waited_s
        players, memory = choice.players, choice.memory
        waited = {} if wait_for.clients == 1 else {"waited_s": waited_s}
        if not players.size:
            return players, {"eligible": 0, "selected": [], **asked, **waited}
        rng = self._streams.generator("selection", server.stream, choice.count)
        view = self._observations.clients(players, self._clock.now_s, round_number, server)
        with at_work(selection, "decide"):
            own.memory, decision = selection.decide(memory, view, rng)
        if is_users_own(selection) and not selection.needs_losses:
            in_vain = view.has_read("last_loss") and bool(np.isnan(view.last_loss).all())
            self._oddities.no_losses.count(in_vain, self._clock.now_s)
        own.decided = True
        chosen = numbers_among(players, view.clients, decision, selection)
        if not one and isinstance(selection, CountedSelection):
            wanted = selection.wanted(players.size)
            self._oddities.small.count(chosen.size < wanted, self._clock.now_s)
            self._oddities.large.count(chosen.size > wanted, self._clock.now_s)
        listed = chosen[:MOST_LISTED] if one else chosen
        detail = {"eligible": int(players.size), "selected": listed.tolist(), **asked, **waited}
        if listed.size < chosen.size:
            detail["left_out"] = int(chosen.size - listed.size)
        return chosen, detail

    def _ask(
        self,
        selection: QueryingSelection,
        choice: _Choice,
        available: Callable[[], Generator[simpy.Event, Any, IntArray]],
        about: tuple[StateRef, int, ServerId],
    ) -> Generator[simpy.Event, Any, None]:
        """Queries clients of `choice`, repeatedly until one that answered is still available.

        Leaves the available clients, without those that did not answer, for which the selection
        would see an earlier answer. Leaves none if no client is `available` for another query.
        """
        ref, round_number, server = about
        for _ in range(MOST_FAILURES):
            choice.memory, asked, answered = yield from self._queries.ask(
                selection, choice.memory, choice.players, ref, round_number, server, choice.count
            )
            choice.asked += int(asked.size)
            left = choice.players[self._there(choice.players)]
            left = left[~np.isin(left, np.setdiff1d(asked, answered))]
            if np.isin(answered, left).any():
                choice.players = left
                return
            since_s = self._clock.now_s
            choice.players = yield from available()
            choice.waited_s += self._clock.now_s - since_s
            if not choice.players.size:
                return
            choice.count = self._servers_own[server].next_count()
        raise Stalled(
            f"stalled at {self._clock.now_s:g} s: {MOST_FAILURES} times in a row no client that"
            f" {server} queried was still available afterwards; check the population's availability"
            f" ({self._presence.told_by}), faults, batteries and message_loss"
        )

    def _there(self, clients: IntArray) -> BoolArray:
        """The clients that could begin a round now."""
        now_s = self._clock.now_s
        return self._presence.there(clients, now_s) & (self._dispatcher.free_s(clients) <= now_s)

    def _available(
        self,
        players: IntArray,
        server: ServerId,
        began_s: float,
        wait_s: float | None,
        wait_for: WaitFor,
        unless: simpy.Event | None,
    ) -> Generator[simpy.Event, Any, IntArray]:
        """The available clients of `players`, as soon as there are enough.

        After the limit of `wait_for` one client is enough; none after `wait_s`, or when `unless`
        happens. Both limits count from `began_s`.
        """
        own, looks_s, looks = self._servers_own[server], self._clock.now_s, 0
        gives_up_s = np.inf if wait_s is None else began_s + wait_s
        limit_s = np.inf if wait_for.limit_s is None else began_s + wait_for.limit_s
        while True:
            now_s = self._clock.now_s
            wanted = wait_for.wanted(players.size) if now_s < limit_s else 1
            free_s = self._dispatcher.free_s(players)  # later: stragglers of closed rounds
            there = self._there(players)
            found = int(np.count_nonzero(there))
            if found >= wanted:
                own.in_vain, own.looked_s = 0, -np.inf
                self._given_up = 0
                return players[there]
            if now_s >= gives_up_s and not found:
                if not self._presence.anybody(now_s):
                    low = self._too_low(np.arange(self._presence.num_clients), now_s)
                    raise Stalled(f"stalled at {now_s:g} s: no client will ever be available{low}")
                self._given_up += 1
                if self._given_up > MOST_GIVEN_UP:
                    raise Stalled(
                        f"stalled at {now_s:g} s: {MOST_GIVEN_UP:,} rounds in a row were given up"
                        f" because no client became available within {wait_s:g} s; check the"
                        " protocol's patience.deadline_s and the population's availability"
                        f" ({self._presence.told_by})"
                    )
                return players[:0]
            absent = players[~there]
            later_s = np.maximum(self._presence.next_s(absent, now_s), free_s[~there])
            # Enough clients cannot be available before the missing ones can have come; others may
            # leave.
            last = wanted - found - 1
            enough_s = np.partition(later_s, last)[last] if absent.size else np.inf
            # A model may round at its boundary, so time must advance by at least the last bit.
            next_s = max(float(enough_s), float(np.nextafter(now_s, np.inf)))
            waits = f"{'one' if wanted == 1 else wanted} of {players.size} clients"
            low = self._too_low(absent, now_s) if np.isinf(next_s) else ""
            with self._clock.waiting(str(server), f"{waits} to become available{low}"):
                ends_s = [one for one in (gives_up_s, limit_s) if one > now_s]
                alarm_s = min(next_s, *ends_s, self._servers.fails_s(server))
                alarm = [self._clock.until(alarm_s)] if alarm_s < np.inf else []
                ends = alarm if unless is None else [*alarm, unless]
                yield self._clock.env.any_of([self._dispatcher.freed, *ends])
            self._servers.check(server)
            if unless is not None and unless.triggered:
                return players[:0]
            if next_s <= self._clock.now_s:
                expected = absent[later_s <= next_s]
                self._looked(server, f"{server} waits for {waits}", expected)
                looks += 1
                if looks > MOST_LOOKS:
                    raise Stalled(
                        f"stalled at {self._clock.now_s:g} s: {server} waits for {waits}, but that"
                        f" many were not available at once since {looks_s:g} s; check the"
                        " protocol's wait_for and the population's availability"
                        f" ({self._presence.told_by}), faults and batteries"
                    )

    def _too_low(self, clients: IntArray, now_s: float) -> str:
        """A suffix with the number of clients whose batteries stay too low for ever; or ""."""
        low = int(self._presence.stays_empty(clients, now_s).sum())
        return (
            f" ({low} have batteries that are too low, and nothing charges them enough)"
            if low
            else ""
        )

    def _looked(self, server: ServerId, waits: str, expected: IntArray) -> None:
        """Expected clients should be here by now; raises `Stalled` if none ever comes."""
        now_s, own = self._clock.now_s, self._servers_own[server]
        if self._presence.there(expected, now_s).any():
            own.in_vain, own.looked_s = 0, -np.inf
            return
        if own.looked_s == now_s:  # several processes of one server may look at the same time
            return
        own.in_vain, own.looked_s = own.in_vain + 1, now_s
        if own.in_vain > MOST_FAILURES:
            raise Stalled(
                f"stalled at {now_s:g} s: {waits}, and none was available {MOST_FAILURES} times in"
                " a row when one was expected; check the population's availability"
                f" ({self._presence.told_by}), faults and batteries"
            )
