"""Messages over two links in sequence: a client's own, and the backhaul behind it.

The access point forwards bits as they arrive, like a proxy between two connections: both links
carry a message at the same time, at the rate of the slower one, and their other times add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.system.cost import TransferCost
from simfl.system.messages import Outgoing, Transmission, transmission
from simfl.system.sharing.base import Sender


@dataclass(frozen=True, eq=False)
class Relayed:
    """Messages of one direction before they are sent, one column entry each.

    `access` and `backhaul` are the same messages over either link alone.
    """

    access: Outgoing
    backhaul: Outgoing

    def sent(self, radio_idle_s: FloatArray) -> Transmission:
        """Their transmissions, `radio_idle_s` after each radio's last message.

        Only the client's radio sleeps. An attempt is lost if either link loses it.
        """
        own, loss = self.access, self.access.loss
        columns = own.columns
        if loss is not None:
            near, far = (loss.on(each.columns) for each in (own, self.backhaul))
            columns = replace(columns, loss_probability=near + far - near * far)
            loss = replace(loss, probability=None)
        latency, whole = self._attempt()
        return transmission(
            latency,
            whole,
            own.wire_bytes,
            columns,
            radio_idle_s,
            loss,
            own.loss_draw,
            own.stage,
        )

    def senders(
        self,
        sent: Transmission,
        weight: FloatArray,
        routes: Sequence[tuple[int, ...]],
        channels: IntArray,
    ) -> list[Sender]:
        """How each would send if it had both links to itself: see `Outgoing.senders`.

        `channels` numbers the media of the access points, as in `Sender.channel`.
        """
        bits = 8.0 * self.access.wire_bytes
        alone = self.access.senders(sent, weight, routes)
        near_s, far_s = _flow_s(self._near), _flow_s(self._far)
        near_bps, far_bps = (
            np.divide(bits, flow_s, out=np.zeros_like(bits), where=flow_s > 0)
            for flow_s in (near_s, far_s)
        )
        near_j = self._near[1].active_j - self._near[0].active_j
        power_w = np.divide(near_j, near_s, out=np.zeros_like(near_s), where=near_s > 0)
        slope_w = self.access.slopes_w(near_bps, power_w)
        columns = (power_w, slope_w, near_bps, far_bps, channels)
        # Alone it sends at the rate of the slower link, exactly.
        return [
            replace(
                one,
                power_w=watts,
                slope_w=sloping_w,
                rate_bps=max(own_bps, one.rate_bps),
                behind_bps=max(beyond_bps, one.rate_bps),
                channel=channel,
            )
            for one, watts, sloping_w, own_bps, beyond_bps, channel in zip(
                alone, *(column.tolist() for column in columns), strict=True
            )
        ]

    @cached_property
    def _near(self) -> tuple[TransferCost, TransferCost]:
        return self.access.attempt()

    @cached_property
    def _far(self) -> tuple[TransferCost, TransferCost]:
        return self.backhaul.attempt()

    def _attempt(self) -> tuple[TransferCost, TransferCost]:
        """The cost of one attempt of each, with the radio awake: before the first bit, and total.

        The radio is on air for as long as over its own link alone; it waits for the other one.
        """
        (near_latency, near), (far_latency, far) = self._near, self._far
        latency = TransferCost(
            near_latency.duration_s + far_latency.duration_s,
            near_latency.active_j,
            near_latency.network_j + far_latency.network_j,
        )
        whole = TransferCost(
            latency.duration_s + np.maximum(_flow_s(self._near), _flow_s(self._far)),
            near.active_j,
            near.network_j + far.network_j,
        )
        return latency, whole


def _flow_s(attempt: tuple[TransferCost, TransferCost]) -> FloatArray:
    """Seconds in which bits are sent."""
    latency, whole = attempt
    flow_s: FloatArray = whole.duration_s - latency.duration_s
    return flow_s
