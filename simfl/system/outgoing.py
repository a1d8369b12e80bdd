"""Messages about to be sent: everything that is drawn for them, and what sending them takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.system.cost import TransferCost, WireTransfer
from simfl.system.costs_of import channel_of
from simfl.system.grouping import by_value
from simfl.system.link import Link
from simfl.system.link_columns import LinkColumns
from simfl.system.message_loss import MessageLoss
from simfl.system.messages import send, transmit_all
from simfl.system.radio_paths import RadioPaths
from simfl.system.sharing.base import Sender
from simfl.system.sharing.message import Gap, SharedMessage

SHORTEST_BYTES = 1e-9
"""So few bytes take a message's latency, and no time beside it."""


@dataclass(frozen=True, eq=False)
class Outgoing:
    """Messages of one direction, one column entry each; `links` are what `link_index` points into.

    `rate_factor` multiplies what the channel leaves of a link's rate, `jitter` its latency; `luck`
    is what `loss` reads the number of attempts off.
    """

    links: Sequence[Link]
    link_index: IntArray
    paths: RadioPaths
    wire_bytes: IntArray
    rate_factor: FloatArray
    jitter: FloatArray
    columns: LinkColumns
    loss: MessageLoss | None
    luck: FloatArray

    def sent(self, radio_idle_s: FloatArray) -> WireTransfer:
        """What they cost over links of their own."""
        once = self._once(self.wire_bytes)
        return send(once, self.wire_bytes, self.columns, radio_idle_s, self.loss, self.luck)

    def shared(
        self, radio_idle_s: FloatArray, weight: FloatArray, routes: Sequence[tuple[int, ...]]
    ) -> list[SharedMessage]:
        """The same messages, with the same draws, for a medium that `routes` leads over.

        Powers are those of a transfer alone: the medium says for how long they are drawn.
        """
        count = len(self.wire_bytes)
        whole, latency = (
            self._once(size) for size in (self.wire_bytes, np.full(count, SHORTEST_BYTES))
        )
        flow_s = whole.duration_s - latency.duration_s
        flow_j = whole.active_j - latency.active_j
        costs = self.sent(radio_idle_s)
        snr, efficiency_max = self._bands()
        messages = []
        for place in range(count):
            size = int(self.wire_bytes[place])
            sender = Sender(
                int(self.paths.clients[place]),
                8.0 * size / float(flow_s[place]) if size else 1.0,
                float(flow_j[place] / flow_s[place]) if size else 0.0,
                float(weight[place]),
                float(snr[place]),
                float(efficiency_max[place]),
                routes[place],
            )
            attempts, failed = int(costs.attempts[place]), bool(costs.failed[place])
            gaps = self._gaps(place, attempts, float(radio_idle_s[place]), failed=failed)
            before = float(latency.duration_s[place]), float(latency.active_j[place])
            network_j = float(whole.network_j[place])
            messages.append(SharedMessage(sender, size, attempts, failed, gaps, before, network_j))
        return messages

    def _once(self, size_bytes: IntArray | FloatArray) -> TransferCost:
        """One attempt of each, with its radio awake."""
        return transmit_all(
            self.links, self.link_index, self.paths, size_bytes, self.rate_factor, self.jitter
        )

    def _gaps(
        self, place: int, attempts: int, radio_idle_s: float, *, failed: bool
    ) -> tuple[Gap, ...]:
        """Before each attempt, and after the last one where it failed (see `send`)."""
        radio = self.columns.take(np.array([place]))
        wake_s, wake_j = radio.wake(radio_idle_s)
        gaps = [(float(wake_s[0]), float(wake_j[0]))]
        for attempt in range(1, attempts):
            assert self.loss is not None
            wait_s = self.loss.wait_s(attempt)
            wake_s, wake_j = radio.wake(wait_s)
            gap_j = float(wake_j[0] + radio.tail_j(wait_s)[0])
            gaps.append((wait_s + float(wake_s[0]), gap_j))
        if failed:
            assert self.loss is not None
            wait_s = self.loss.wait_s(attempts)
            gaps.append((wait_s, float(radio.tail_j(wait_s)[0])))
        return tuple(gaps)

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
