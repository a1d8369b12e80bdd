"""Messages about to be sent: everything that is drawn for them, and what sending them takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.system.cost import TransferCost
from simfl.system.costs_of import channel_of, transfer_cost_of
from simfl.system.grouping import by_value
from simfl.system.link import Link
from simfl.system.link_columns import LinkColumns
from simfl.system.message_loss import MessageLoss
from simfl.system.messages import Transmission, transmission
from simfl.system.radio_paths import RadioPaths
from simfl.system.segments import Kind
from simfl.system.sharing.base import Sender

SHORTEST_BYTES = 1e-9
"""So few bytes take a message's latency, and no time beside it."""


@dataclass(frozen=True, eq=False)
class Outgoing:
    """Messages of one direction, one column entry each; `links` are what `link_index` points into.

    `rate_factor` multiplies what the channel leaves of a link's rate, `jitter` its latency;
    `loss_draw` is what `loss` reads the number of attempts off. `stage` is that of their segments.
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
        """What they take, `radio_idle_s` after each radio's last message."""
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

    def attempt(self, share: FloatArray | float = 1.0) -> tuple[TransferCost, TransferCost]:
        """One attempt of each: what it takes before the first bit, and in all.

        With its radio awake, over its own link, at a `share` of the link's rate.
        """
        shortest = np.where(self.wire_bytes > 0, SHORTEST_BYTES, 0.0)
        return self._once(shortest, share), self._once(self.wire_bytes, share)

    def senders(
        self, sent: Transmission, weight: FloatArray, routes: Sequence[tuple[int, ...]]
    ) -> list[Sender]:
        """How each would send over a channel that `routes` leads over, had it that to itself."""
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
        return [Sender(*one) for one in figures]

    @cached_property
    def _factor(self) -> FloatArray:
        """Of each link's rate."""
        factor = self.rate_factor.copy()
        for index, rows in by_value(self.link_index):
            if self.links[index].needs_places:
                factor[rows] *= channel_of(self.links[index], self.paths.of(rows))
        return factor

    def _once(self, size_bytes: IntArray | FloatArray, share: FloatArray | float) -> TransferCost:
        factors = self._factor * share
        duration_s, active_j, network_j = np.empty((3, len(self.link_index)))
        for index, rows in by_value(self.link_index):
            bits, factor, jitter = 8.0 * size_bytes[rows], factors[rows], self.jitter[rows]
            cost = transfer_cost_of(self.links[index], bits, self.paths.uplink, factor, jitter)
            duration_s[rows], active_j[rows] = cost.duration_s, cost.active_j
            network_j[rows] = cost.network_j
        return TransferCost(duration_s, active_j, network_j)

    def _bands(self) -> tuple[FloatArray, FloatArray]:
        """Signal to noise over each sender's whole band, and its best bit/s/Hz."""
        snr, efficiency_max = np.empty((2, len(self.link_index)))
        for index, rows in by_value(self.link_index):
            link = self.links[index]
            factor = (
                channel_of(link, self.paths.of(rows)) if link.needs_places else np.ones(rows.size)
            )
            snr[rows], efficiency_max[rows] = link.band(factor)
        return snr, efficiency_max
