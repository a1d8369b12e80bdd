"""Edge servers and the cloud at work: aggregation, and messages between the tiers."""

from __future__ import annotations

import json
import math
from collections.abc import Generator, Mapping
from typing import Any

import numpy as np
import simpy

from simfl.algorithms.base import Work
from simfl.eventlog.log import EventLog
from simfl.protocols.clock import Clock, Stalled
from simfl.protocols.details import as_json
from simfl.protocols.media import Media
from simfl.protocols.messages import book_message
from simfl.protocols.resting import Resting
from simfl.system.failures import Failures
from simfl.system.sharing.message import SharedMessage
from simfl.system.world import World

Waiting = Generator[simpy.Event, Any, None]

MOST_FAILURES = 1000
"""Failures in a row after which nothing more is hoped for."""


class Crashed(Exception):
    """An edge server has failed; it works again at `works_s`."""

    def __init__(self, edge: int, works_s: float) -> None:
        super().__init__(f"edge-{edge} has crashed")
        self.works_s = works_s


class Servers:
    """Books what servers do; what they do not do is booked as waiting.

    `failures` are those of edge servers, and of their links to the cloud. Whatever an edge server
    does raises `Crashed` at the moment when it fails.
    """

    def __init__(
        self, world: World, log: EventLog, clock: Clock, failures: tuple[Failures, Failures]
    ) -> None:
        self._world = world
        self._log = log
        self._clock = clock
        self._failures, self._link_failures = failures
        edges = [*range(world.num_edges), -1]
        radios = world.messenger.server_radios
        self._resting = Resting(log, clock, log.actors.edge(0), radios, edges)
        self._media = Media(world.backhaul_sharing, log, clock)
        self._never = clock.env.event()
        self._failing: dict[int, tuple[float, simpy.Event]] = {}
        # Messages of each edge server lost in a row, whatever it was that failed between them.
        self._lost = np.zeros(world.num_edges, dtype=np.int64)
        self._messages = {
            uplink: np.zeros(world.num_edges, dtype=np.int64) for uplink in (False, True)
        }

    def work(
        self,
        tier: int | None,
        work: Work,
        *,
        detail: Mapping[str, Any],
        edge: int = -1,
        **columns: Any,
    ) -> Waiting:
        """Edge server `tier`, or the cloud (None), computes.

        `edge` is the edge server that the cloud's work is about. No work takes no time and leaves
        no row.
        """
        if work.flops == 0.0 and work.bytes_moved == 0.0:
            return
        if tier is None:
            actor, kind = self._log.actors.cloud, "cloud_aggregate"
            cost = self._world.aggregate("cloud", work.flops, work.bytes_moved)
        else:
            actor, kind, edge = self._log.actors.edge(tier), "edge_aggregate", tier
            cost = self._world.aggregate("edge", work.flops, work.bytes_moved)
        duration_s = float(cost.duration_s)
        share = self._share_until(self.fails_s(tier), duration_s)
        end_s = self._busy(
            kind,
            actor,
            share * duration_s,
            share * float(cost.active_j),
            self.fails_s(tier),
            detail,
            edge=edge,
            **columns,
        )
        yield from self.until(tier, end_s if share == 1.0 else self.fails_s(tier))

    def send(
        self, edge: int, raw_bytes: int, version: int, round_number: int, *, uplink: bool
    ) -> Waiting:
        """A message between an edge server and the cloud, in the edge server's time.

        Servers do not give up: what is lost is sent again. Raises `Stalled` where that never ends.
        """
        if raw_bytes == 0:
            return
        while self._lost[edge] < MOST_FAILURES:
            arrived = yield from self._send(edge, raw_bytes, version, round_number, uplink)
            if arrived:
                self._lost[edge] = 0
                return
            self._lost[edge] += 1
        raise Stalled(
            f"edge-{edge}'s messages were lost {MOST_FAILURES} times in a row, each time for good;"
            " what are the population's message_loss and faults.cloud_link?"
        )

    def _send(
        self, edge: int, raw_bytes: int, version: int, round_number: int, uplink: bool
    ) -> Generator[simpy.Event, Any, bool]:
        """One message, over all its attempts; whether it arrived."""
        yield from self._connected(edge, version, round_number)
        number = int(self._messages[uplink][edge])
        self._messages[uplink][edge] += 1
        about = {"edge": edge, "version": version, "round": round_number}
        actor, who = self._log.actors.edge(edge), np.array([edge])
        self._log.add(self._resting.until_now(who))
        radio_idle_s = self._resting.radio_idle_s(who, self._clock.now_s)
        if self._world.backhaul_sharing.contended:
            message = self._world.messenger.shared_backhaul(
                edge, number, raw_bytes, uplink, radio_idle_s
            )
            return (yield from self._share(edge, message, uplink, about))
        cost = self._world.backhaul_transfer(
            edge, number, raw_bytes, uplink, float(radio_idle_s[0])
        )
        start_s, duration_s = self._clock.now_s, float(cost.duration_s)
        cut_s = self._link_failures.fails_s(edge, start_s)
        share = self._share_until(min(cut_s, self.fails_s(edge)), duration_s)
        active_j, network_j = share * float(cost.active_j), share * float(cost.network_j)
        failed = bool(cost.failed) or share < 1.0
        # Of a message that is cut off every attempt begun so far is lost.
        attempts = math.ceil(share * int(cost.attempts))
        lost_bytes = attempts * int(cost.wire_bytes) if failed else int(cost.lost_bytes)
        end_s = start_s + share * duration_s
        silent_s = float(cost.silent_s) if share == 1.0 else 0.0
        self._resting.free(who, end_s, silent_s, self._failures.fails_s(edge, start_s))
        book_message(
            self._log,
            actor,
            start_s,
            end_s,
            (active_j, network_j),
            received=0 if failed else int(cost.wire_bytes),
            lost=lost_bytes,
            uplink=uplink,
            about=about,
            typed={"attempts": attempts},
        )
        yield from self.until(edge, end_s if share == 1.0 else cut_s)
        return not failed

    def _share(
        self, edge: int, message: SharedMessage, uplink: bool, about: dict[str, int]
    ) -> Generator[simpy.Event, Any, bool]:
        """One message over a medium that edge servers share; whether it arrived."""
        clock, who = self._clock, np.array([edge])
        stops_s = min(self._link_failures.fails_s(edge, clock.now_s), self.fails_s(edge))
        self._resting.busy(who, np.inf)
        crossing = clock.env.process(self._crossing(edge, message, uplink, about))
        if stops_s < np.inf:
            yield clock.env.any_of([crossing, clock.until(stops_s)])
            if crossing.is_alive:
                yield clock.gathered()
            if crossing.is_alive:
                crossing.interrupt()
        whole = yield crossing
        silent_s = message.silent_s if whole else 0.0
        self._resting.free(who, clock.now_s, silent_s, self.fails_s(edge))
        self.check(edge)
        return whole and not message.failed

    def _crossing(
        self, edge: int, message: SharedMessage, uplink: bool, about: dict[str, int]
    ) -> Generator[simpy.Event, Any, bool]:
        """Carry a message; whether nothing has cut it off."""
        try:
            yield from self._media.carry(self._log.actors.edge(edge), (), message, uplink, about)
        except simpy.Interrupt:
            return False
        return True

    def failure(self, edge: int | None) -> simpy.Event:
        """Happens when an edge server that is at work fails next."""
        fails_s = self.fails_s(edge)
        if fails_s == np.inf or edge is None:
            return self._never
        known_s, event = self._failing.get(edge, (-np.inf, self._never))
        if known_s != fails_s:
            event = self._clock.until(fails_s)
            self._failing[edge] = fails_s, event
        return event

    def fails_s(self, edge: int | None) -> float:
        """When an edge server that is at work fails next; inf: never, as the cloud."""
        return np.inf if edge is None else self._failures.fails_s(edge, self._clock.now_s)

    def until(self, edge: int | None, time_s: float) -> Waiting:
        """An edge server (None: the cloud) waits, works or sends until `time_s`.

        Raises `Crashed` if it fails before.
        """
        fails_s = self.fails_s(edge)
        if edge is None or time_s < fails_s:
            yield self._clock.until(time_s)
            return
        yield self._clock.until(fails_s)
        self.check(edge)

    def check(self, edge: int | None) -> None:
        """Raises `Crashed` if an edge server has just failed."""
        now_s = self._clock.now_s
        if edge is not None and self.fails_s(edge) <= now_s:
            works_s = self._failures.works_s(edge, now_s)
            self._note_crash("edge_server", edge, works_s)
            raise Crashed(edge, works_s)

    def working(self, edge: int) -> Waiting:
        """Wait until an edge server works."""
        works_s = self._failures.works_s(edge, self._clock.now_s)
        if works_s > self._clock.now_s:
            with self._clock.waiting(f"edge-{edge}", "its repair"):
                yield self._clock.until(works_s)

    def _connected(self, edge: int, version: int, round_number: int) -> Waiting:
        """Wait until an edge server's link to the cloud works."""
        works_s = self._link_failures.works_s(edge, self._clock.now_s)
        if works_s > self._clock.now_s:
            self._note_crash("cloud_link", edge, works_s, version=version, round=round_number)
            yield from self.until(edge, works_s)

    def _note_crash(self, what: str, edge: int, works_s: float, **columns: Any) -> None:
        away_s = works_s - self._clock.now_s
        self.note(edge, "crash", {"what": what}, value=away_s, **columns)

    def _share_until(self, stops_s: float, duration_s: float) -> float:
        """How much of an activity that begins now is done before something fails."""
        left_s = stops_s - self._clock.now_s
        return 1.0 if left_s >= duration_s else max(left_s, 0.0) / duration_s

    def note(self, tier: int | None, kind: str, detail: Mapping[str, Any], **columns: Any) -> None:
        """A row that takes no time, by edge server `tier` or the cloud (None).

        It is about that edge server, unless `columns` name another.
        """
        actor = self._log.actors.cloud if tier is None else self._log.actors.edge(tier)
        columns = {"edge": -1 if tier is None else tier, **columns}
        self._log.row(kind, actor, self._clock.now_s, detail=as_json(detail), **columns)

    def close(self) -> None:
        """Book what every server waited until now."""
        for actor in self._media.senders:
            self._media.cut(actor)
        self._log.add(self._resting.until_now(self._resting.waiting(self._clock.now_s)))

    def _busy(
        self,
        kind: str,
        actor: int,
        duration_s: float,
        active_j: float,
        stays_s: float,
        detail: Mapping[str, Any],
        **columns: Any,
    ) -> float:
        """Book work that starts now, of a machine that fails at `stays_s`; when it ends."""
        start_s = self._clock.now_s
        end_s = start_s + duration_s
        who = np.array([actor - self._log.actors.edge(0)])
        self._log.add(self._resting.until_now(who))
        tail_j = float(self._resting.tail_j(who, end_s)[0])
        radio_idle_s = self._resting.radio_idle_s(who, start_s) + duration_s
        self._resting.free(who, end_s, radio_idle_s, stays_s)
        active_j += tail_j
        self._log.row(
            kind,
            actor,
            end_s,
            start_s=start_s,
            energy_j=self._log.accounts.power_idle_w[actor] * (end_s - start_s) + active_j,
            extra_j=active_j,
            active_j=active_j,
            tail_j=tail_j,
            detail=json.dumps(detail),
            **columns,
        )
        return end_s
