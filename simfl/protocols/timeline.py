"""The timeline of clients that began together: outcomes of messages and computations by stage.

Either executor fills it in: whole rounds at once (`Timeline.take` of the results of `ahead.walk`),
or step by step over shared channels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.protocols.ahead import Walked
from simfl.system.interruptions import Interruption
from simfl.system.messages import Transmission
from simfl.system.round_plan import RoundPlan
from simfl.system.segments import COMPUTE, DOWNLOAD, STAGES, UPLOAD, Kind, Segments, added

NOT_STOPPED = -1
FLOWS = (Kind.FLOW, Kind.RESUMED)


@dataclass(frozen=True, eq=False)
class Computation:
    """The computations of a round, as planned: one entry per client."""

    frequency_hz: FloatArray
    cycles: FloatArray
    duration_s: FloatArray
    dynamic_j: FloatArray
    static_j: FloatArray


class Messages:
    """The messages of each stage; arrays have shape (stages, actors).

    For one attempt `flow_s` is the time in which bits flow, `once_network_j` the joules of the
    network; `since_last_attempt_s` is the time from the last attempt of a message that `fails` to
    its end. Stages without a message, and actors without one, have `size_bytes` 0.
    """

    def __init__(self, sent: Mapping[int, Transmission], actors: int) -> None:
        shape = len(STAGES), actors
        self.sent = sent
        self.size_bytes: IntArray = np.zeros(shape, dtype=np.int64)
        self.fails: BoolArray = np.zeros(shape, dtype=bool)
        self.since_last_attempt_s, self.flow_s, self.once_network_j = np.zeros((3, *shape))
        for stage, one in sent.items():
            self.size_bytes[stage], self.fails[stage] = one.wire_bytes, one.failed
            self.since_last_attempt_s[stage] = one.since_last_attempt_s
            self.flow_s[stage], self.once_network_j[stage] = one.flow_s, one.network_j


class Stages:
    """The outcome of each stage; arrays have shape (stages, actors), in the order of `STAGES`.

    A stage has `begun` or not, and is `over` or not; it lasts from `begin_s` to `end_s` as far as
    is known. `active_j` are joules above idle power, `tail_j` the part of the radio's tail,
    `unmet_j` the part that empty batteries did not give, `network_j` the joules of the network in
    between; `attempts` counts the flows begun.
    """

    def __init__(self, actors: int) -> None:
        shape = len(STAGES), actors
        self.begun, self.over = np.zeros((2, *shape), dtype=bool)
        self.begin_s, self.end_s = np.full((2, *shape), np.nan)
        self.active_j, self.tail_j, self.unmet_j, self.network_j = np.zeros((4, *shape))
        self.attempts: IntArray = np.zeros(shape, dtype=np.int64)


class Ends:
    """The end of each actor's timeline: one entry each.

    It was `stopped_by` a cause at `stops_s` (inf: it was not), and is present until
    `present_until_s`; it first left at `away_s` (inf: never). `done` is the completed share of its
    computation, `earlier_message_s` the end of its last message before these. At `absent_from_s`
    (inf: never) it left although its work went on.
    """

    def __init__(self, actors: int) -> None:
        self.done: FloatArray = np.zeros(actors)
        self.stops_s: FloatArray = np.full(actors, np.inf)
        self.stopped_by: IntArray = np.full(actors, NOT_STOPPED)
        self.present_until_s: FloatArray = np.full(actors, np.inf)
        self.away_s: FloatArray = np.full(actors, np.inf)
        self.earlier_message_s: FloatArray = np.full(actors, -np.inf)
        self.absent_from_s: FloatArray = np.full(actors, np.inf)


class Timeline:
    """The timeline of `actors` that began together, with their planned `messages` and `work`.

    Their server is available until `heard_s` (inf: for ever).
    """

    def __init__(
        self,
        actors: IntArray,
        messages: Mapping[int, Transmission],
        work: Computation | None = None,
        heard_s: float = np.inf,
    ) -> None:
        self.actors = actors
        self.messages = Messages(messages, actors.size)
        self.work = work
        self.heard_s = heard_s
        self.stages = Stages(actors.size)
        self.ends = Ends(actors.size)
        self.pauses: list[Interruption] = []

    @classmethod
    def of_round(cls, actors: IntArray, plan: RoundPlan, heard_s: float) -> Timeline:
        """The timeline of client rounds."""
        work = Computation(
            plan.frequency_hz, plan.cycles, plan.compute_s, plan.dynamic_j, plan.static_j
        )
        return cls(actors, {DOWNLOAD: plan.download, UPLOAD: plan.upload}, work, heard_s)

    @property
    def received(self) -> BoolArray:
        """The actors that have their download, or needed none."""
        received: BoolArray = self._arrived(DOWNLOAD) | (self.messages.size_bytes[DOWNLOAD] == 0)
        return received

    @property
    def arrives_s(self) -> FloatArray:
        """When each upload arrives; inf: never, or not yet."""
        none, stages = self.messages.size_bytes[UPLOAD] == 0, self.stages
        end_s = np.where(none, stages.end_s[COMPUTE], stages.end_s[UPLOAD])
        there = np.where(none, stages.over[COMPUTE], self._arrived(UPLOAD))
        return np.where(there & (end_s <= self.heard_s), end_s, np.inf)

    @property
    def arrived_bytes(self) -> IntArray:
        """The delivered bytes of each stage's message."""
        there = np.array([self._arrived(stage) for stage in range(len(STAGES))])
        arrived: IntArray = self.messages.size_bytes * there
        return arrived

    @property
    def last_message_s(self) -> FloatArray:
        """The end of each actor's last attempt at a message; -inf: none, or its radio is off."""
        ended = self.stages.over & (self.stages.attempts > 0)
        sent_s = self.stages.end_s - self.messages.since_last_attempt_s
        ended_s = np.where(ended, sent_s, -np.inf)
        last_s = np.maximum(ended_s.max(axis=0), self.ends.earlier_message_s)
        return np.where(self.ends.stopped_by == NOT_STOPPED, last_s, -np.inf)

    @property
    def computed_s(self) -> FloatArray:
        """When each computation ends; inf: never, or not yet."""
        return np.where(self.stages.over[COMPUTE], self.stages.end_s[COMPUTE], np.inf)

    @property
    def begins_s(self) -> FloatArray:
        """When each actor's first stage begins; inf: none has."""
        begins_s: FloatArray = np.where(self.stages.begun, self.stages.begin_s, np.inf).min(axis=0)
        return begins_s

    @property
    def ended_s(self) -> FloatArray:
        """When each actor's last stage ended or was interrupted."""
        ended_s: FloatArray = np.where(self.stages.begun, self.stages.end_s, -np.inf).max(axis=0)
        return ended_s

    @property
    def spent_j(self) -> FloatArray:
        """Joules above idle power of all stages, as far as batteries gave them."""
        spent: FloatArray = (self.stages.active_j - self.stages.unmet_j).sum(axis=0)
        return spent

    def goes_on(self, stage: int, place: int) -> bool:
        """Whether anything follows a stage that is over."""
        return stage != DOWNLOAD or bool(self.received[place])

    def stop(self, place: int, now_s: float, cause: int) -> None:
        """An actor is stopped now."""
        self.ends.stops_s[place], self.ends.stopped_by[place] = now_s, cause

    def flow_begins(self, stage: int, place: int, now_s: float) -> None:
        """An attempt at a message begins to flow."""
        stages = self.stages
        if not stages.begun[stage, place]:
            stages.begun[stage, place], stages.begin_s[stage, place] = True, now_s
        stages.attempts[stage, place] += 1

    def flow_undone(self, stage: int, place: int) -> None:
        """The run ends exactly when an attempt would begin."""
        stages = self.stages
        stages.attempts[stage, place] -= 1
        if stages.begin_s[stage, place] == stages.end_s[stage, place]:
            stages.begun[stage, place] = False

    def flow_ends(
        self,
        stage: int,
        place: int,
        now_s: float,
        joules: tuple[float, float, float],
        *,
        over: bool,
    ) -> None:
        """A flow ends now or is interrupted: its joules, the network's, and those not given.

        `over` says that its stage is.
        """
        stages = self.stages
        active_j, network_j, unmet_j = joules
        stages.end_s[stage, place], stages.over[stage, place] = now_s, over
        stages.active_j[stage, place] += active_j
        stages.network_j[stage, place] += network_j
        stages.unmet_j[stage, place] += unmet_j

    def attempt_network_j(self, stage: int, place: int) -> float:
        """Joules of the network for one attempt at a message."""
        return float(self.messages.once_network_j[stage, place])

    def take(
        self, walked: Walked, places: IntArray | slice = slice(None), last: int = UPLOAD
    ) -> None:
        """Takes in computed segments; `last`: whether they complete their last stage."""
        table, share, network_j = walked.segments, walked.share, self.network_j_of(walked)
        for stage in np.unique(table.stage).tolist():
            span = table.span(stage)
            self._take_stage(stage, walked, span, share, places, whole=stage <= last)
            if network_j is not None:
                self.stages.network_j[stage, places] += added(network_j[span])
        stopped = walked.ends_s[-1] > walked.stops_s
        self.ends.stops_s[places] = np.where(stopped, walked.stops_s, np.inf)
        self.ends.stopped_by[places] = np.where(stopped, walked.causes, NOT_STOPPED)
        self.ends.present_until_s[places] = walked.present_until_s

    def paused(self, pauses: Sequence[Interruption]) -> None:
        """Records absences of clients."""
        for one in pauses:
            place = np.flatnonzero(self.actors == one.client)
            self.ends.away_s[place] = np.minimum(self.ends.away_s[place], one.time_s)
        self.pauses += pauses

    def fresh(self) -> Timeline:
        """The same timeline before it began."""
        return Timeline(self.actors, self.messages.sent, self.work, self.heard_s)

    def network_j_of(self, walked: Walked) -> FloatArray | None:
        """Joules of the network in each segment of all actors; None: no such joules.

        Segments of some actors alone, as `Stepped` walks them, have no flows.
        """
        table, share = walked.segments, walked.share
        flowing = np.isin(table.kind, FLOWS)
        if not (flowing.any() and self.messages.once_network_j.any()):
            return None
        flows = flowing[:, None] & table.happens
        once_j, flow_s = (
            self.messages.once_network_j[table.stage],
            self.messages.flow_s[table.stage],
        )
        seconds = table.seconds if share is None else table.seconds * share
        passed = np.divide(seconds, flow_s, out=np.zeros_like(seconds), where=flows & (flow_s > 0))
        return once_j * passed

    def _take_stage(
        self,
        stage: int,
        walked: Walked,
        span: slice,
        share: FloatArray | None,
        places: IntArray | slice,
        *,
        whole: bool,
    ) -> None:
        table, stages = walked.segments, self.stages
        has = table.happens[span].any(axis=0)
        begins_s, ends_s = walked.begins_s[span.start], walked.ends_s[span.stop - 1]
        over = has & (ends_s <= walked.stops_s)
        begun = over | (has & (begins_s < walked.stops_s))
        joules, tail_j = table.joules[span], table.tail_j[span]
        began = (table.kind[span] == Kind.FLOW)[:, None] & table.happens[span]
        if share is not None:
            joules, tail_j = joules * share[span], tail_j * share[span]
            began = began & (walked.begins_s[span] < walked.stops_s)
        fresh = begun & ~stages.begun[stage, places]
        stages.begin_s[stage, places] = np.where(fresh, begins_s, stages.begin_s[stage, places])
        stages.begun[stage, places] |= begun
        ended_s = np.minimum(ends_s, walked.stops_s)
        stages.end_s[stage, places] = np.where(begun, ended_s, stages.end_s[stage, places])
        stages.over[stage, places] = over & whole
        stages.active_j[stage, places] += added(joules)
        if tail_j.any():
            stages.tail_j[stage, places] += added(tail_j)
        stages.attempts[stage, places] += began.sum(axis=0)
        if walked.unmet_j is not None:
            unmet_j = walked.unmet_j[span]
            stages.unmet_j[stage, places] += added(
                unmet_j if share is None else unmet_j * share[span]
            )
        if stage == COMPUTE and self.work is not None:
            self.ends.done[places] = self._done(table, span, share, over, places)

    def _done(
        self,
        table: Segments,
        span: slice,
        share: FloatArray | None,
        over: BoolArray,
        places: IntArray | slice,
    ) -> FloatArray:
        """The completed share of the computation."""
        if share is None:
            return over.astype(float)
        assert self.work is not None
        work = (table.kind[span] == Kind.WORK)[:, None]
        worked_s = added(table.seconds[span] * share[span] * work)
        whole_s = self.work.duration_s[places]
        done = np.divide(worked_s, whole_s, out=np.zeros_like(worked_s), where=whole_s > 0)
        return np.where(over, 1.0, done)

    def _arrived(self, stage: int) -> BoolArray:
        arrived: BoolArray = (
            self.stages.over[stage]
            & ~self.messages.fails[stage]
            & (self.messages.size_bytes[stage] > 0)
            & (self.stages.end_s[stage] <= self.heard_s)
        )
        return arrived
