"""Edge servers and the cloud at work: aggregation, and messages between the tiers."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy

from simfl.algorithms.base import Work
from simfl.common.arrays import FloatArray, IntArray
from simfl.eventlog.accounts import Heading
from simfl.eventlog.kinds import CUTS
from simfl.eventlog.log import EventLog
from simfl.eventlog.rows import Rows
from simfl.protocols.ahead import Limits, walk
from simfl.protocols.booking import Booking, Entry
from simfl.protocols.clock import Clock, Stalled
from simfl.protocols.details import as_json
from simfl.protocols.idle_tracker import IdleTracker
from simfl.protocols.stepped import Listeners, Sending, Stepped
from simfl.protocols.timeline import Timeline
from simfl.system.failures import Failures
from simfl.system.moments import Moment
from simfl.system.segments import DOWNLOAD, UPLOAD
from simfl.system.server_id import ServerId
from simfl.system.sharing.medium import Channels
from simfl.system.world import World

Waiting = Generator[simpy.Event, Any, None]

MOST_FAILURES = 1000
"""The most failures in a row; after them the run stalls."""


class Crashed(Exception):
    """An edge server has failed; it works again at `works_s`."""

    def __init__(self, server: ServerId, works_s: float) -> None:
        super().__init__(f"{server} has crashed")
        self.works_s = works_s


@dataclass(eq=False)
class _Faults:
    """Failures of edge servers and of their links to the cloud.

    `noted_s`: when each edge server works again after its last failure in the log.
    """

    machines: Failures
    links: Failures
    noted_s: FloatArray


class Servers:
    """Runs and books servers' activities; the rest of their time is booked as waiting.

    `failures` are those of edge servers, and of their links to the cloud. Every activity of an edge
    server raises `Crashed` when it fails.
    """

    def __init__(
        self, world: World, log: EventLog, clock: Clock, failures: tuple[Failures, Failures]
    ) -> None:
        self._world = world
        self._log = log
        self._clock = clock
        self._faults = _Faults(*failures, np.full(world.num_edges, -np.inf))
        edges = [*range(world.num_edges), -1]
        radios = world.messenger.server_radios
        self._idle = IdleTracker(log, clock, log.actors.edge(0), radios, edges)
        self._channels = Channels(world.backhaul_sharing, clock.env)
        self._booking = Booking(log, Heading.SERVERS)
        self._never = clock.env.event()
        self._failing: dict[ServerId, tuple[float, simpy.Event]] = {}
        # Messages of each edge server lost in a row, regardless of other failures in between.
        self._lost = np.zeros(world.num_edges, dtype=np.int64)
        self._messages = {
            uplink: np.zeros(world.num_edges, dtype=np.int64) for uplink in (False, True)
        }

    def work(
        self,
        server: ServerId,
        work: Work,
        *,
        detail: Mapping[str, Any],
        edge: int = -1,
        **columns: Any,
    ) -> Waiting:
        """A server computes.

        `edge` is the edge server that the cloud works for. Zero work takes no time and leaves no
        row.
        """
        if work.flops == 0.0 and work.bytes_moved == 0.0:
            return
        if server.is_edge:
            kind, edge = "edge_aggregate", server.number
            cost = self._world.aggregate("edge", work.flops, work.bytes_moved)
        else:
            kind = "cloud_aggregate"
            cost = self._world.aggregate("cloud", work.flops, work.bytes_moved)
        duration_s = float(cost.duration_s)
        share = self._share_until(self.fails_s(server), duration_s)
        end_s = self._busy(
            kind,
            self._actor(server),
            share * duration_s,
            share * float(cost.active_j),
            self.fails_s(server),
            detail,
            edge=edge,
            **({} if share == 1.0 else {"cut_by": CUTS.index("edge_server")}),
            **columns,
        )
        if share == 1.0:
            yield self._clock.until(end_s, Moment.VERSION)
        else:
            yield from self._until_cut(server, self.fails_s(server))

    def send(
        self, edge: int, raw_bytes: int, version: int, round_number: int, *, uplink: bool
    ) -> Waiting:
        """A message between an edge server and the cloud, in the edge server's time.

        Servers do not give up: lost messages are sent again. Raises `Stalled` if that never ends.
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
            f"edge-{edge}'s messages were lost {MOST_FAILURES} times in a row, after all attempts;"
            " check the population's message_loss and faults.cloud_link"
        )

    def _send(
        self, edge: int, raw_bytes: int, version: int, round_number: int, uplink: bool
    ) -> Generator[simpy.Event, Any, bool]:
        """One message, with all its attempts; returns whether it arrived."""
        yield from self._connected(edge, version, round_number)
        number = int(self._messages[uplink][edge])
        self._messages[uplink][edge] += 1
        server, who, now_s = ServerId(edge), np.array([edge]), self._clock.now_s
        self._log.add(self._idle.until_now(who))
        radio_idle_s = self._idle.radio_idle_s(who, now_s)
        about = edge, number, raw_bytes, uplink
        sent = self._world.backhaul_transfer(*about, radio_idle_s)
        stage = UPLOAD if uplink else DOWNLOAD
        timeline = Timeline(who + self._log.actors.edge(0), {stage: sent})
        columns = {"edge": edge, "version": version, "round": round_number}
        fails_s = np.array([self._faults.links.fails_s(edge, now_s), self.fails_s(server)])
        causes = np.array([CUTS.index("cloud_link"), CUTS.index("edge_server")])
        limits = Limits(fails_s[[fails_s.argmin()]], causes[[fails_s.argmin()]])
        if self._world.backhaul_sharing.contended:
            self._idle.busy(who, np.inf)
            over = self._clock.env.event()
            entry = Entry(timeline, columns)
            Stepped(
                sent.segments,
                who,
                entry,
                limits,
                Sending({stage: self._world.messenger.backhaul_senders(*about, sent)}, [()]),
                self._channels,
                self._booking,
                None,
                self._clock,
                Listeners.when_done(over),
            )
            yield over
            self._booking.finished(entry)
            self._rest(who, timeline)
            if not timeline.stages.over[stage, 0]:
                self.check(server)
        else:
            walked = walk(sent.segments, who, np.array([now_s]), limits)
            timeline.take(walked)
            self._booking.ahead(Entry(timeline, columns, walked=walked), now_s)
            self._rest(who, timeline)
            if timeline.stages.over[stage, 0]:
                yield self._clock.until(float(walked.stopped_s[0]))
            else:
                yield from self._until_cut(server, float(walked.stopped_s[0]))
        return bool(timeline.stages.over[stage, 0] and not sent.failed[0])

    def _rest(self, who: IntArray, timeline: Timeline) -> None:
        """An edge server has sent or received a message, or will have."""
        ended_s, message_s = timeline.ended_s, timeline.last_message_s
        radio_idle_s = np.where(np.isfinite(message_s), ended_s - message_s, 0.0)
        fails_s = self._faults.machines.fails_s(int(who[0]), self._clock.now_s)
        self._idle.free(who, ended_s, radio_idle_s, fails_s)

    def radio_idle_s(self, server: ServerId) -> float:
        """Seconds since a server's last message to or from the cloud; inf: asleep."""
        who = np.array([server.number])
        return float(self._idle.radio_idle_s(who, self._clock.now_s)[0])

    def failure(self, server: ServerId) -> simpy.Event:
        """The event of the next failure of a working server."""
        fails_s = self.fails_s(server)
        if fails_s == np.inf:
            return self._never
        known_s, event = self._failing.get(server, (-np.inf, self._never))
        if known_s != fails_s:
            event = self._clock.until(fails_s, Moment.INTERRUPTION)
            self._failing[server] = fails_s, event
        return event

    def fails_s(self, server: ServerId) -> float:
        """When a working server fails next; inf: never, as for the cloud."""
        if not server.is_edge:
            return np.inf
        return self._faults.machines.fails_s(server.number, self._clock.now_s)

    def until(self, server: ServerId, time_s: float, moment: Moment = Moment.END) -> Waiting:
        """A server waits until `time_s`.

        Raises `Crashed` if it fails by then, because nothing can continue after the wait.
        """
        fails_s = self.fails_s(server)
        if not server.is_edge or time_s < fails_s:
            yield self._clock.until(time_s, moment)
            return
        yield from self._until_cut(server, fails_s)

    def _until_cut(self, server: ServerId, time_s: float) -> Waiting:
        """A server's activity is interrupted then; raises `Crashed` if by its own failure."""
        yield self._clock.until(time_s, Moment.INTERRUPTION)
        self.check(server)

    def check(self, server: ServerId) -> None:
        """Raises `Crashed` if a server has just failed."""
        now_s = self._clock.now_s
        if server.is_edge and self.fails_s(server) <= now_s:
            self.note_failure(server.number)
            raise Crashed(server, self.works_s(server.number))

    def works_s(self, edge: int) -> float:
        """When an edge server works: now, or after its repair."""
        return self._faults.machines.works_s(edge, self._clock.now_s)

    def working(self, edge: int) -> Waiting:
        """Wait until an edge server works."""
        works_s = self.works_s(edge)
        if works_s > self._clock.now_s:
            self.note_failure(edge)
            with self._clock.waiting(f"edge-{edge}", "its repair"):
                yield self._clock.until(works_s)

    def _connected(self, edge: int, version: int, round_number: int) -> Waiting:
        """Wait until an edge server's link to the cloud works."""
        works_s = self._faults.links.works_s(edge, self._clock.now_s)
        if works_s > self._clock.now_s:
            server = ServerId(edge)
            self._note_crash("cloud_link", server, works_s, version=version, round=round_number)
            yield from self.until(server, works_s)

    def note_failure(self, edge: int) -> None:
        """Adds a row, one per failure, about a broken edge server that is needed."""
        works_s = self.works_s(edge)
        if works_s != self._faults.noted_s[edge]:
            self._faults.noted_s[edge] = works_s
            self._note_crash("edge_server", ServerId(edge), works_s)

    def _note_crash(self, what: str, server: ServerId, works_s: float, **columns: Any) -> None:
        away_s = works_s - self._clock.now_s
        self.note(server, "crash", {"what": what}, value=away_s, **columns)

    def _share_until(self, stops_s: float, duration_s: float) -> float:
        """The share of an activity beginning now that is done before something fails."""
        left_s = stops_s - self._clock.now_s
        return 1.0 if left_s >= duration_s else max(left_s, 0.0) / duration_s

    def note(self, server: ServerId, kind: str, detail: Mapping[str, Any], **columns: Any) -> None:
        """Adds a row without duration by a server; for it, unless `columns` name another `edge`."""
        columns = {"edge": server.number, **columns}
        self._log.row(
            kind, self._actor(server), self._clock.now_s, detail=as_json(detail), **columns
        )

    def _actor(self, server: ServerId) -> int:
        actors = self._log.actors
        return actors.edge(server.number) if server.is_edge else actors.cloud

    def close(self) -> list[Rows]:
        """Books every server's waiting until now, and rows of messages in progress."""
        under_way = self._booking.close(self._clock.now_s)
        waiting = self._idle.waiting(self._clock.now_s)
        present = self._log.accounts.present[self._log.actors.edge(0) + waiting]
        self._log.add(self._idle.until_now(waiting[present]))
        return under_way

    def _busy(
        self,
        kind: str,
        actor: int,
        duration_s: float,
        active_j: float,
        present_until_s: float,
        detail: Mapping[str, Any],
        **columns: Any,
    ) -> float:
        """Books work that starts now on a machine failing at `present_until_s`; its end."""
        start_s = self._clock.now_s
        end_s = start_s + duration_s
        who = np.array([actor - self._log.actors.edge(0)])
        self._log.add(self._idle.until_now(who))
        tail_ends_s, tail_j = (float(one[0]) for one in self._idle.tail(who, end_s))
        radio_idle_s = self._idle.radio_idle_s(who, start_s) + duration_s
        self._idle.free(who, end_s, radio_idle_s, present_until_s)
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
            tail_ends_s=tail_ends_s,
            detail=json.dumps(detail),
            **columns,
        )
        return end_s
