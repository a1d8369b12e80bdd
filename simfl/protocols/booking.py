"""Writes timelines to the event log and the accounts; the only writer of transfers.

A message's bytes are counted twice, on purpose: when a flow of bits begins (`Booking.flows`), and
when its row is written with the outcome. The accounts compare the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.eventlog.accounts import Heading, Powers
from simfl.eventlog.kinds import CUTS, KIND_INDEX
from simfl.eventlog.log import EventLog
from simfl.eventlog.rows import Rows, join_rows, make_rows
from simfl.protocols.ahead import Walked
from simfl.protocols.details import as_json
from simfl.protocols.timeline import NOT_STOPPED, Timeline
from simfl.system.interruptions import Interruption
from simfl.system.segments import COMPUTE, STAGES, UPLOAD, Kind

END_OF_RUN = CUTS.index("end")
QUERY = as_json({"query": True})
FEW = 1000
"""The number of client rounds kept before checking which are over."""


@dataclass(frozen=True, eq=False)
class Entry:
    """A timeline to be written to the log.

    `about`: columns that all its rows share (edge, version, round). `query`: a query to clients,
    not training. `walked`: its segments, if it is known to its end.
    """

    timeline: Timeline
    about: Mapping[str, int]
    query: bool = False
    walked: Walked | None = None


@dataclass(frozen=True, eq=False)
class _Stepped:
    """A stepped timeline in progress; `ended[stage]`: places whose rows are not written yet."""

    entry: Entry
    spent_j: Callable[[], tuple[float, float]]
    cut: Callable[[float], None]
    ended: list[list[int]]


class Booking:
    """Writes what clients and servers do: downloads, computations, uploads, interruptions.

    `heading` names the account of the joules.
    """

    def __init__(self, log: EventLog, heading: Heading) -> None:
        self._log = log
        self._heading = heading
        self._known: list[Entry] = []
        self._kept, self._most_kept = 0, FEW
        self._stepped: dict[int, _Stepped] = {}
        log.before_writing(lambda _: self.flush())
        log.accounts.spending(self._spent_j)

    def ahead(self, entry: Entry, now_s: float) -> None:
        """Writes all rows of a timeline that is known to its end."""
        timeline, walked = entry.timeline, entry.walked
        assert walked is not None
        self.flows(timeline, walked, now_s)
        stages = np.flatnonzero(timeline.stages.begun.any(axis=1)).tolist()
        rows = [self.rows(entry, stage) for stage in stages]
        powers = self._powers(timeline, walked)
        self._log.add(join_rows([*rows, *self.network(entry)]), powers)
        for one in timeline.pauses:
            self.interruption(one, entry.about)
        self._keep(entry, now_s)

    def _keep(self, entry: Entry, now_s: float) -> None:
        """Keeps an entry until it is over: if the run ends earlier, its rows must be cut."""
        self._known.append(entry)
        self._kept += entry.timeline.actors.size
        if self._kept > self._most_kept:
            self._known = [one for one in self._known if _ends_s(one) > now_s]
            self._kept = sum(one.timeline.actors.size for one in self._known)
            self._most_kept = FEW + 2 * self._kept

    def flows(self, timeline: Timeline, walked: Walked, now_s: float) -> None:
        """Counts the bytes of every attempt, at the time when its flow of bits begins."""
        table = walked.segments
        for row in np.flatnonzero(table.kind == Kind.FLOW).tolist():
            stage, begins_s = int(table.stage[row]), walked.begins_s[row]
            begun = table.happens[row] & (begins_s < walked.stops_s)
            self._log.accounts.traffic.begin(
                timeline.actors[begun],
                begins_s[begun],
                timeline.messages.size_bytes[stage][begun],
                now_s,
                uplink=stage == UPLOAD,
            )

    def expect(self, timeline: Timeline, walked: Walked) -> None:
        """Tells the accounts of joules whose rows are written later."""
        for power in self._powers(timeline, walked):
            self._log.accounts.expect_power(*power)

    def open(
        self,
        entry: Entry,
        spent_j: Callable[[], tuple[float, float]],
        cut: Callable[[float], None],
    ) -> None:
        """Begins a timeline that is filled in step by step.

        `spent_j()` returns the joules spent so far that the accounts do not know yet, by devices
        above idle power and by the network; `cut(now_s)` stops everything in progress.
        """
        self._stepped[id(entry)] = _Stepped(entry, spent_j, cut, [[] for _ in STAGES])

    def over(self, entry: Entry, stage: int, place: int) -> None:
        """An actor of a stepped timeline has ended a stage; its row comes with the next batch."""
        self._stepped[id(entry)].ended[stage].append(place)

    def finished(self, entry: Entry) -> None:
        """A stepped timeline is over: writes its remaining rows."""
        stepped = self._stepped.pop(id(entry))
        self._write([*self._ended(stepped), *self.network(entry)], counted=True)

    def flow_begins(self, actor: int, now_s: float, size_bytes: int, *, uplink: bool) -> None:
        """Bits of a message begin to flow now: counts an attempt."""
        columns = np.array([actor]), np.array([now_s]), np.array([size_bytes])
        self._log.accounts.traffic.begin(*columns, now_s, uplink=uplink)

    def flowed(self, begin_s: float, end_s: float, active_j: float, network_j: float) -> None:
        """Tells the accounts of a flow's joules (device and network); rows come later."""
        span = np.array([begin_s]), np.array([end_s])
        self._log.accounts.expect_power(*span, np.array([active_j]), self._heading)
        self._log.accounts.expect_power(*span, np.array([network_j]), Heading.NETWORK)

    def flush(self) -> None:
        """Writes the rows of all stages that have ended."""
        for stepped in self._stepped.values():
            self._write(self._ended(stepped), counted=True)

    def pauses(self, several: Sequence[Interruption], entry: Entry) -> None:
        """Clients are away for a while."""
        for one in several:
            self.interruption(one, entry.about)

    def interruption(self, one: Interruption, about: Mapping[str, int]) -> None:
        """An interruption of a client at work, as a row without duration."""
        detail = {"stage": one.stage, "then": "goes_on" if one.goes_on else "ends"}
        self._log.row(
            one.cause, one.client, one.time_s, value=one.lasts_s, detail=as_json(detail), **about
        )

    def out_of_memory(
        self, client: int, time_s: float, lacking_bytes: float, about: Mapping[str, int]
    ) -> None:
        """A client cannot train its model for lack of memory."""
        detail = as_json({"stage": STAGES[COMPUTE], "then": "ends"})
        self._log.row("out_of_memory", client, time_s, value=lacking_bytes, detail=detail, **about)

    def rows(self, entry: Entry, stage: int, places: IntArray | None = None) -> Rows:
        """The rows of a stage, for the actors that have begun it; none without a message."""
        timeline, stages = entry.timeline, entry.timeline.stages
        there = stages.begun[stage]
        if stage != COMPUTE:
            there = there & (timeline.messages.size_bytes[stage] > 0)
        if places is not None:
            of_these = np.zeros_like(there)
            of_these[places] = True
            there = there & of_these
        which: slice | BoolArray = slice(None) if there.all() else there
        actors = timeline.actors[which]
        begin_s, end_s = stages.begin_s[stage][which], stages.end_s[stage][which]
        active_j, unmet_j = (
            stages.active_j[stage][which],
            stages.unmet_j[stage][which],
        )
        stopped = (timeline.ends.stopped_by != NOT_STOPPED) & ~stages.over[stage]
        duration_s, extra_j = end_s - begin_s, active_j - unmet_j
        idle_j = self._log.accounts.power_idle_w[actors] * duration_s
        more: dict[str, Any] = {"detail": [QUERY] * actors.size} if entry.query else {}
        if stopped.any():
            more["cut_by"] = np.where(stopped, timeline.ends.stopped_by, -1)[which]
        own = _work if stage == COMPUTE else _message
        return make_rows(
            actors.size,
            kind=KIND_INDEX[STAGES[stage]],
            actor=actors,
            start_s=begin_s,
            time_s=end_s,
            duration_s=duration_s,
            energy_j=np.maximum(idle_j + extra_j, 0.0),
            extra_j=extra_j,
            active_j=active_j,
            **_where("tail_j", stages.tail_j[stage][which]),
            **_where("unmet_j", unmet_j),
            **own(timeline, stage, which),
            **more,
            **entry.about,
        )

    def network(self, entry: Entry, until_s: float = np.inf) -> list[Rows]:
        """The network's energy for all messages; one row or none."""
        timeline = entry.timeline
        energy_j = float(timeline.stages.network_j.sum())
        if not energy_j:
            return []
        begin_s = float(np.nanmin(timeline.stages.begin_s))
        end_s = min(float(np.nanmax(timeline.stages.end_s)), until_s)
        row = make_rows(
            1,
            kind=KIND_INDEX["network"],
            actor=self._log.actors.network,
            start_s=begin_s,
            time_s=end_s,
            duration_s=end_s - begin_s,
            energy_j=energy_j,
            extra_j=energy_j,
            **entry.about,
        )
        return [row]

    def close(self, now_s: float) -> list[Rows]:
        """The run ends: writes rows of everything in progress, up to now.

        They replace the rows that `ahead` has written for it.
        """
        rows: list[Rows] = []
        for stepped in self._stepped.values():
            stepped.cut(now_s)
            self._write(self._ended(stepped), counted=True)
            self._write(self.cut(stepped.entry), counted=True)
        for entry in self._known:
            if _ends_s(entry) > now_s:
                rows += self.cut(cut_at(entry, now_s))
        self._known, self._stepped = [], {}
        return rows

    def _ended(self, stepped: _Stepped) -> list[Rows]:
        """Rows of stages that have ended since the last call."""
        rows = []
        for stage, places in enumerate(stepped.ended):
            if places:
                rows.append(self.rows(stepped.entry, stage, np.array(places)))
                places.clear()
        return rows

    def _write(self, several: Sequence[Rows], *, counted: bool) -> None:
        """Adds rows; `counted`: the accounts already have their joules."""
        if several:
            self._log.add(join_rows(several), () if counted else None)

    def _spent_j(self) -> dict[Heading, float]:
        spent = [stepped.spent_j() for stepped in self._stepped.values()]
        return {
            self._heading: sum(active_j for active_j, _ in spent),
            Heading.NETWORK: sum(network_j for _, network_j in spent),
        }

    def _powers(self, timeline: Timeline, walked: Walked) -> Powers:
        """The accounts' input: begin, end and joules above idle power, per segment."""
        share = walked.share
        joules = walked.segments.joules
        if walked.unmet_j is not None:
            joules = joules - walked.unmet_j
        if share is not None:
            joules = joules * share
        begins_s = walked.begins_s
        ends_s = np.minimum(walked.ends_s, walked.stops_s)
        by_heading = {self._heading: joules, Heading.NETWORK: timeline.network_j_of(walked)}
        found = []
        for heading, own_j in by_heading.items():
            if own_j is not None:
                spent = own_j != 0.0
                found.append((begins_s[spent], ends_s[spent], own_j[spent], heading))
        return found

    def cut(self, entry: Entry) -> list[Rows]:
        """Rows of the stages that the end of the run cuts."""
        timeline, rows = entry.timeline, self.network(entry)
        for stage in range(len(STAGES)):
            crossing = timeline.stages.begun[stage] & ~timeline.stages.over[stage]
            crossing &= timeline.ends.stopped_by == END_OF_RUN
            places = np.flatnonzero(crossing)
            if places.size:
                rows.append(self.rows(entry, stage, places))
                self._log.accounts.traffic.under_way(
                    timeline.actors[places],
                    timeline.stages.attempts[stage, places]
                    * timeline.messages.size_bytes[stage, places],
                    uplink=stage == UPLOAD,
                )
        return rows


def cut_at(entry: Entry, now_s: float) -> Entry:
    """The same entry, cut at the end of the run now."""
    assert entry.walked is not None
    timeline = entry.timeline.fresh()
    timeline.take(stopped_at(entry.walked, now_s))
    return replace(entry, timeline=timeline)


def stopped_at(walked: Walked, now_s: float) -> Walked:
    """The same segments, stopped now if not finished."""
    running = walked.stopped_s > now_s
    return replace(
        walked,
        stops_s=np.where(running, now_s, walked.stops_s),
        causes=np.where(running, END_OF_RUN, walked.causes),
    )


def _message(timeline: Timeline, stage: int, which: slice | BoolArray) -> dict[str, Any]:
    """Columns of a message: its attempts, and the outcome of its bytes.

    Unknown for a message in progress when the run ends.
    """
    attempts, size = (
        timeline.stages.attempts[stage][which],
        timeline.messages.size_bytes[stage][which],
    )
    arrived = timeline.arrived_bytes[stage][which]
    known = (timeline.ends.stopped_by != END_OF_RUN)[which] | timeline.stages.over[stage][which]
    return {
        "attempts": attempts,
        "bytes": arrived,
        "lost_bytes": np.where(known, attempts * size - arrived, 0),
    }


def _work(timeline: Timeline, _: int, which: slice | BoolArray) -> dict[str, Any]:
    """Columns of a computation: its frequency, and the completed part."""
    work, done = timeline.work, timeline.ends.done[which]
    assert work is not None
    return {
        "frequency_hz": work.frequency_hz[which],
        "cycles": work.cycles[which] * done,
        "dynamic_j": work.dynamic_j[which] * done,
        "static_j": work.static_j[which] * done,
    }


def _where(name: str, column: FloatArray) -> dict[str, Any]:
    """A column, unless it is empty."""
    return {name: column} if column.any() else {}


def _ends_s(entry: Entry) -> float:
    assert entry.walked is not None
    return float(entry.walked.stopped_s.max())
