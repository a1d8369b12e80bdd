"""Messages: their random draws, and their segments.

Segments are waking the radio, latency and the flow of bits, for every lost attempt, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.system.checked_costs import channel_of, transfer_cost_of
from simfl.system.cost import TransferCost
from simfl.system.grouping import by_value
from simfl.system.link import Link
from simfl.system.link_columns import LinkColumns
from simfl.system.message_loss import MessageLoss
from simfl.system.radio_paths import RadioPaths
from simfl.system.segments import Kind, Row, Segments, added
from simfl.system.sharing.base import Sender

SHORTEST_BYTES = 1e-9
"""So few bytes take only a message's latency."""


@dataclass(frozen=True, eq=False)
class Transmission:
    """One message of each sender, over all its attempts, as `segments` of one stage.

    `wire_bytes` is the size after the codec (0: there is no message), `attempts` the number of
    times it is sent, `failed` whether all of them are lost. `network_j` are the joules of the
    network between the ends for one attempt, `since_last_attempt_s` the time from the end of the
    last attempt to the end: the time that a sender waits before it gives up.
    """

    segments: Segments
    wire_bytes: IntArray
    attempts: IntArray
    failed: BoolArray
    network_j: FloatArray
    since_last_attempt_s: FloatArray

    @property
    def duration_s(self) -> FloatArray:
        """Seconds until it arrives, or until the sender gives up."""
        return added(self.segments.seconds)

    @property
    def active_j(self) -> FloatArray:
        """The sender's joules beyond idle power."""
        return added(self.segments.joules)

    @property
    def flow_s(self) -> FloatArray:
        """Seconds in which the bits of one attempt are sent."""
        flows = np.flatnonzero(self.segments.kind == Kind.FLOW)
        none: FloatArray = np.zeros(self.wire_bytes.shape)
        return self.segments.seconds[flows[0]] if flows.size else none

    @property
    def promotion_j(self) -> FloatArray:
        """The part of `active_j` for waking the radio."""
        wakes = self.segments.kind == Kind.WAKE
        return added(self.segments.joules[wakes])

    @property
    def tail_j(self) -> FloatArray:
        """The part of `active_j` for the radio's tail between attempts."""
        return added(self.segments.tail_j)

    @property
    def lost_bytes(self) -> IntArray:
        """Bytes of lost attempts, unless the message is interrupted."""
        return (self.attempts - ((self.wire_bytes > 0) & ~self.failed)) * self.wire_bytes


def transmission(
    latency: TransferCost,
    whole: TransferCost,
    wire_bytes: IntArray,
    links: LinkColumns,
    since_s: ArrayLike,
    loss: MessageLoss | None,
    uniform: ArrayLike,
    stage: int,
) -> Transmission:
    """The transmissions of messages until they arrive or the sender gives up; one entry each.

    `whole` is the cost of one attempt with the radio awake, `latency` the part of it before the
    first bit. `since_s` are the seconds since each radio's last message. Without `loss` nothing is
    lost; with it, `uniform` is one draw per message. Every attempt takes the time, energy and bytes
    of the whole message, at the same rate (block fading: the channel does not change); between
    attempts, and while a sender that gives up waits in vain, the radio is in its tail and then
    asleep. The tail after a message is not included.
    """
    sent = wire_bytes > 0
    attempts, failed = sent.astype(np.int64), np.zeros_like(sent)
    if loss is not None:
        attempts, failed = loss.attempts(links.loss_probability, uniform)
        attempts, failed = attempts * sent, failed & sent
    flow_s, flow_j = whole.duration_s - latency.duration_s, whole.active_j - latency.active_j
    # Rounded as on a shared channel, which uses bits and their rate: see `Outgoing.senders`.
    with np.errstate(divide="ignore", invalid="ignore"):
        bits = 8.0 * wire_bytes
        flow_s = np.where(sent & (flow_s > 0), bits / (bits / flow_s), 0.0)
    nothing = np.zeros(sent.shape)
    rows: list[Row] = []

    def add(kind: Kind, who: BoolArray, seconds: FloatArray, joules: FloatArray) -> None:
        spent = who * joules
        rows.append(
            Row(stage, kind, who, who * seconds, spent, spent if kind == Kind.TAIL else nothing)
        )

    def attempt(who: BoolArray, idle_s: ArrayLike) -> None:
        add(Kind.WAKE, who, *links.wake(idle_s))
        add(Kind.LATENCY, who, latency.duration_s, latency.active_j)
        add(Kind.FLOW, who, flow_s, flow_j)

    def wait(who: BoolArray, wait_s: float) -> None:
        awake_s = np.minimum(wait_s, links.tail_s)
        add(Kind.TAIL, who, awake_s, links.tail_j(wait_s))
        add(Kind.SLEEP, who, wait_s - awake_s, nothing)

    attempt(sent, since_s)
    since_last_attempt_s = nothing
    if loss is not None:
        for number in range(1, int(attempts.max(initial=0))):
            again, wait_s = attempts > number, loss.wait_s(number)
            wait(again, wait_s)
            attempt(again, wait_s)
        if failed.any():
            wait_s = loss.wait_s(loss.attempts_max)
            wait(failed, wait_s)
            since_last_attempt_s = np.where(failed, wait_s, 0.0)
    table = Segments.of(rows, sent.size)
    return Transmission(
        table, wire_bytes, attempts, failed, whole.network_j * sent, since_last_attempt_s
    )


@dataclass(frozen=True, eq=False)
class Outgoing:
    """Messages of one direction, one column entry each; `link_index` refers to `links`.

    `rate_factor` multiplies the link's rate after the channel, `jitter` its latency; `loss_draw`
    determines the number of attempts for `loss`. `stage` is that of their segments.
    """

    links: Sequence[Link]
    link_index: IntArray
    paths: RadioPaths
    wire_bytes: IntArray
    rate_factor: FloatArray
    jitter: FloatArray
    columns: LinkColumns
    loss: MessageLoss | None
    loss_draw: FloatArray
    stage: int

    def sent(self, radio_idle_s: FloatArray) -> Transmission:
        """Their transmissions, `radio_idle_s` after each radio's last message."""
        latency, whole = self.attempt()
        return transmission(
            latency,
            whole,
            self.wire_bytes,
            self.columns,
            radio_idle_s,
            self.loss,
            self.loss_draw,
            self.stage,
        )

    def attempt(self) -> tuple[TransferCost, TransferCost]:
        """The cost of one attempt of each message: before the first bit, and in total.

        This is with the radio awake, over the sender's own link.
        """
        shortest = np.where(self.wire_bytes > 0, SHORTEST_BYTES, 0.0)
        return self._once(shortest), self._once(self.wire_bytes)

    def senders(
        self, sent: Transmission, weight: FloatArray, routes: Sequence[tuple[int, ...]]
    ) -> list[Sender]:
        """How each would send over the channels in `routes` if it had them to itself."""
        flows = np.flatnonzero(sent.segments.kind == Kind.FLOW)
        if not flows.size:
            return [Sender(client, 1.0) for client in self.paths.clients.tolist()]
        flow_s, flow_j = sent.segments.seconds[flows[0]], sent.segments.joules[flows[0]]
        there = self.wire_bytes > 0
        rate_bps = np.divide(8.0 * self.wire_bytes, flow_s, out=np.ones_like(flow_s), where=there)
        power_w = np.divide(flow_j, flow_s, out=np.zeros_like(flow_s), where=there)
        columns = (
            self.paths.clients,
            rate_bps,
            power_w,
            weight,
            *self._bands(),
        )
        figures = zip(*(column.tolist() for column in columns), routes, strict=True)
        senders = [Sender(*one) for one in figures]
        slopes_w = self.slopes_w(rate_bps, power_w).tolist()
        return [replace(one, slope_w=watts) for one, watts in zip(senders, slopes_w, strict=True)]

    def slopes_w(self, rate_bps: FloatArray, power_w: FloatArray) -> FloatArray:
        """The part of `power_w` that is proportional to the rates."""
        uplink = self.paths.uplink
        slopes = [
            one.slope_up_w_per_bps if uplink else one.slope_down_w_per_bps for one in self.links
        ]
        return np.minimum(np.array(slopes)[self.link_index] * rate_bps, power_w)

    @cached_property
    def _factor(self) -> FloatArray:
        """The factor on each link's rate."""
        factor = self.rate_factor.copy()
        for index, rows in by_value(self.link_index):
            if self.links[index].needs_places:
                factor[rows] *= channel_of(self.links[index], self.paths.of(rows))
        return factor

    def _once(self, size_bytes: IntArray | FloatArray) -> TransferCost:
        duration_s, active_j, network_j = np.empty((3, len(self.link_index)))
        for index, rows in by_value(self.link_index):
            bits, factor, jitter = 8.0 * size_bytes[rows], self._factor[rows], self.jitter[rows]
            cost = transfer_cost_of(self.links[index], bits, self.paths.uplink, factor, jitter)
            duration_s[rows], active_j[rows] = cost.duration_s, cost.active_j
            network_j[rows] = cost.network_j
        return TransferCost(duration_s, active_j, network_j)

    def _bands(self) -> tuple[FloatArray, FloatArray]:
        """Signal-to-noise ratio over each sender's whole band, and its highest bit/s/Hz."""
        snr, efficiency_max = np.empty((2, len(self.link_index)))
        for index, rows in by_value(self.link_index):
            link = self.links[index]
            factor = (
                channel_of(link, self.paths.of(rows)) if link.needs_places else np.ones(rows.size)
            )
            snr[rows], efficiency_max[rows] = link.band(factor)
        return snr, efficiency_max
