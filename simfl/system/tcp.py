"""A long path with one TCP connection, limited by lost packets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import FloatArray
from simfl.system.cost import TransferCost
from simfl.system.link import FixedRateLink


@dataclass(frozen=True, kw_only=True)
class TcpLink(FixedRateLink):
    """A fixed rate, at most MSS / RTT sqrt(1.5 / p) of one connection (Mathis et al., CCR 1997).

    p is the share of lost *packets*, which TCP repairs; `loss_probability` loses whole messages.
    Each message first opens a connection, for `setup_round_trips`, and has a slow start:
    `initial_window` packets are sent in a round trip, twice as many in the next one, until the
    packets in flight fill the path (Kurose and Ross, Computer Networking, latency with a dynamic
    window, without the first packet's own time). For a connection that is kept open and warm, use
    no set-up and a large window.
    """

    name: ClassVar[str] = "tcp"

    packet_loss: Annotated[float, "> 0", "< 1", "p, share of packets lost"]
    segment_bytes: Annotated[float, "> 0", "MSS, payload of one packet"] = 1460.0
    setup_round_trips: Annotated[
        float, ">= 0", "round trips before the first bit; 1 for TCP, 2 with TLS"
    ] = 1.0
    initial_window: Annotated[float, "> 0", "packets of the first round trip (RFC 6928)"] = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rtt_s == 0:
            raise ValueError("rtt_s: found 0, a connection's rate depends on its round trips")

    def rate_bps(self, uplink: bool) -> float:
        """The configured rate of the direction, or the rate that the connection reaches."""
        reached_bps = 8.0 * self.segment_bytes / self.rtt_s * np.sqrt(1.5 / self.packet_loss)
        return min(super().rate_bps(uplink), float(reached_bps))

    def transmit(
        self,
        bits: ArrayLike,
        uplink: bool,
        rate_factor: ArrayLike = 1.0,
        jitter: ArrayLike | None = None,
    ) -> TransferCost:
        """The cost of set-up, at the power of the transfer, slow start and transfer.

        While it waits for an acknowledgement, the radio draws the transfer's power without the part
        for the rate.
        """
        factor = np.asarray(1.0 if jitter is None else jitter, dtype=float)
        stretch = 2.0 * self.setup_round_trips + 1.0  # in halves of a round trip
        whole = super().transmit(bits, uplink, rate_factor, stretch * factor)
        rate_bps = self.rate_bps(uplink) * np.asarray(rate_factor, dtype=float)
        waits_s = self._slow_start_s(np.asarray(bits, dtype=float), rate_bps, self.rtt_s * factor)
        power_w = self.power_transmit_w if uplink else self.power_receive_w
        waits_j = max(power_w - self.power_idle_w, 0.0) * waits_s
        return TransferCost(whole.duration_s + waits_s, whole.active_j + waits_j, whole.network_j)

    def _slow_start_s(
        self, bits: FloatArray, rate_bps: FloatArray, rtt_s: FloatArray
    ) -> FloatArray:
        """The time for which the sender waits for acknowledgements, besides sending.

        Windows of W, 2 W, 4 W, ... bits take a round trip each, until they hold rate RTT, except
        the message's last one. n of them take n RTT instead of W (2^n - 1) / rate.
        """
        window = 8.0 * self.segment_bytes * self.initial_window
        of_message = np.ceil(np.log2(bits / window + 1.0)) - 1.0
        until_full = np.ceil(np.log2(rate_bps * rtt_s / window))
        n = np.maximum(np.minimum(of_message, until_full), 0.0)
        waits_s: FloatArray = n * rtt_s - window * (2.0**n - 1.0) / rate_bps
        return waits_s
