"""Simulates client rounds ahead of time, to predict how long they take in parallel.

Clients of the same cohort contend, as on the run's own channels; radios start in the state after
their last message. There are no interruptions, and nothing is booked.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import simpy

from simfl.common.arrays import FloatArray, IntArray
from simfl.common.model_work import ModelWork
from simfl.learning.job import Price
from simfl.system.messages import Transmission
from simfl.system.round_plan import RoundPlan
from simfl.system.segments import DOWNLOAD, UPLOAD, Kind, Segments
from simfl.system.server_id import ServerId
from simfl.system.sharing.base import Sender
from simfl.system.sharing.dedicated import Dedicated
from simfl.system.sharing.medium import Channels, Medium
from simfl.system.world import World

ASLEEP = np.inf
"""Seconds since the last message, for a radio that has not sent yet."""


@dataclass(frozen=True, eq=False)
class PlainRounds:
    """Rounds of plain training of the whole model in `world`, which may be without noise.

    A round trains on `examples` (clients,) in `steps` steps, with a model of this `work`; `edge` is
    each client's edge server; messages have the bytes of `price`. `flat`: the cloud serves all
    clients, and nothing crosses edge servers' links.
    """

    world: World
    examples: FloatArray
    steps: FloatArray
    work: ModelWork
    price: Price
    edge: IntArray
    flat: bool

    @property
    def quiet(self) -> PlainRounds:
        """The same without noise: every duration at its mean."""
        return replace(self, world=self.world.without_noise)

    @property
    def with_links_of_their_own(self) -> PlainRounds:
        """The same without contention."""
        alone = replace(self.world, access_sharing=Dedicated(), backhaul_sharing=Dedicated())
        return replace(self, world=alone)

    @property
    def contended(self) -> bool:
        """Whether clients of a cohort can slow one another down."""
        return self.world.client_sharing.contended

    @property
    def certain(self) -> bool:
        """Whether every round of a client takes the same time."""
        world = self.world
        noise = np.any(world.compute_noise) or world.transfer_noise or world.straggler_mean
        fades = world.fades and any(link.needs_places for link in world.links)
        return not (noise or world.messenger.jitters or fades or world.message_loss)

    @property
    def backhaul_contended(self) -> bool:
        """Whether edge servers' messages can slow one another down."""
        return not self.flat and self.world.backhaul_sharing.contended

    @property
    def sleeps(self) -> bool:
        """Whether waking a radio up takes time."""
        messenger = self.world.messenger
        edges = not self.flat and messenger.server_radios.promotion_s.any()
        return bool(edges or messenger.client_radios.promotion_s.any())

    def rounds_s(
        self,
        cohorts: IntArray,
        numbers: IntArray,
        frequency_hz: FloatArray,
        radio_idle_s: FloatArray,
        server: ServerId,
    ) -> tuple[FloatArray, FloatArray]:
        """Each client's seconds in its cohort, and its radio's idle time at the end.

        `cohorts`, both results, `radio_idle_s` (since each client's last message) and `numbers`
        (which address the noise) have shape (cohorts, clients of each); `frequency_hz` has one
        value per client of the world.
        """
        clients, numbers = cohorts.ravel(), numbers.ravel()
        plan = self.plan(clients, numbers, frequency_hz[clients], radio_idle_s.ravel())
        if self.contended:
            lasts_s = self._over_channels(plan, cohorts, numbers, server)
        else:
            lasts_s = plan.download_s + plan.compute_s + plan.upload_s
        return lasts_s.reshape(cohorts.shape), plan.radio_idle_s.reshape(cohorts.shape)

    def latency_s(
        self,
        cohorts: IntArray,
        frequency_hz: FloatArray,
        radio_idle_s: FloatArray,
        rounds: int,
        pause_s: float,
        server: ServerId,
        first: int = 0,
    ) -> FloatArray:
        """Seconds of this many consecutive rounds of each cohort, with `pause_s` after each.

        `radio_idle_s` has one value per client of the world, at the beginning; the cohorts' draws
        are numbered from `first` on.
        """
        total_s, idle_s = np.zeros(len(cohorts)), radio_idle_s[cohorts]
        # Without varying noise or sleeping radios all rounds have the same mean.
        tried = rounds if self.sleeps else 1
        for number in range(tried):
            draws = (first + np.arange(len(cohorts))) * tried + number
            numbers = np.broadcast_to(draws[:, None], cohorts.shape)
            lasts_s, silent_s = self.rounds_s(cohorts, numbers, frequency_hz, idle_s, server)
            longest_s = lasts_s.max(axis=1)
            total_s += longest_s
            idle_s = silent_s + longest_s[:, None] - lasts_s + pause_s
        return total_s * (rounds / tried) + rounds * pause_s

    def around_s(self, server: ServerId, radio_idle_s: float, meanwhile_s: float) -> float:
        """Seconds of an edge server's messages from and to the cloud, `meanwhile_s` apart.

        Its radio's last message was `radio_idle_s` ago.
        """
        who = np.array([server.number])
        down_s = self.backhaul_s(who, np.array([radio_idle_s]), uplink=False)
        silent_s = meanwhile_s if self.price.down_bytes else radio_idle_s + meanwhile_s
        up_s = self.backhaul_s(who, np.array([silent_s]), uplink=True)
        return float((down_s + up_s)[0])

    def backhaul_s(
        self, edges: IntArray, radio_idle_s: FloatArray, *, uplink: bool, together: bool = False
    ) -> FloatArray:
        """Seconds of each edge server's message to or from the cloud.

        Alone, or `together` with the others' messages. Its last message was `radio_idle_s` ago.
        """
        world = self.world
        raw_bytes = self.price.up_bytes if uplink else self.price.down_bytes
        if not raw_bytes:
            return np.zeros(edges.size)
        sent = world.backhaul_transfer(edges, 0, raw_bytes, uplink, radio_idle_s)
        if not (together and world.backhaul_sharing.contended):
            return sent.duration_s
        about = [(edge, 0, raw_bytes, uplink) for edge in edges.tolist()]
        several = [
            world.messenger.backhaul_senders(*one, world.backhaul_transfer(*one))[0]
            for one in about
        ]
        stage = UPLOAD if uplink else DOWNLOAD
        channels = Channels(world.backhaul_sharing, env := simpy.Environment())
        return _side_by_side(
            env,
            sent.segments,
            {stage: several},
            {stage: sent},
            lambda _, uplink: channels.of((), uplink),
        )

    def plan(
        self,
        clients: IntArray,
        numbers: IntArray,
        frequency_hz: FloatArray,
        radio_idle_s: FloatArray,
    ) -> RoundPlan:
        """The plan of each client alone."""
        return self.world.plan_rounds(
            clients,
            numbers,
            self.examples[clients],
            self.work,
            self.price.down_bytes,
            self.price.up_bytes,
            frequency_hz,
            self.edge[clients],
            radio_idle_s,
            self.steps[clients],
        )

    def _over_channels(
        self, plan: RoundPlan, cohorts: IntArray, numbers: IntArray, server: ServerId
    ) -> FloatArray:
        """Seconds of each client's round, over channels used by its cohort only."""
        world, table, clients = self.world, plan.segments, cohorts.ravel()
        sent = {DOWNLOAD: plan.download, UPLOAD: plan.upload}
        raw_bytes = {DOWNLOAD: self.price.down_bytes, UPLOAD: self.price.up_bytes}
        senders = {
            stage: world.messenger.senders(
                clients, numbers, raw_bytes[stage], stage == UPLOAD, server, sent[stage]
            )
            for stage in sent
        }
        env, air, width = simpy.Environment(), world.air(clients, server), cohorts.shape[1]
        channels = [Channels(world.client_sharing, env) for _ in cohorts]
        return _side_by_side(
            env,
            table,
            senders,
            sent,
            lambda place, uplink: channels[place // width].of(air[place], uplink),
        )


def _side_by_side(
    env: simpy.Environment,
    table: Segments,
    senders: Mapping[int, Sequence[Sender]],
    sent: Mapping[int, Transmission],
    channel: Callable[[int, bool], Medium],
) -> FloatArray:
    """Seconds until the end of each column of `table`; `senders` and `sent` by stage."""
    ends_s = np.zeros(table.happens.shape[1])

    def go(place: int) -> Generator[simpy.Event, object, None]:
        for row in np.flatnonzero(table.happens[:, place]).tolist():
            stage = int(table.stage[row])
            if table.kind[row] == Kind.FLOW:
                medium, size_bytes = channel(place, stage == UPLOAD), sent[stage].wire_bytes[place]
                yield medium.transfer(senders[stage][place], int(size_bytes))
            else:
                yield env.timeout(float(table.seconds[row, place]))
        ends_s[place] = env.now

    for place in range(ends_s.size):
        env.process(go(place))
    env.run()
    return ends_s
