"""A long path that one TCP connection fills as far as lost packets let it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from simfl.system.cost import TransferCost
from simfl.system.link import FixedRateLink


@dataclass(frozen=True, kw_only=True)
class TcpLink(FixedRateLink):
    """A fixed rate, at most MSS / RTT sqrt(1.5 / p) of one connection (Mathis et al., CCR 1997).

    p is the share of *packets* lost, which TCP repairs; `loss_probability` loses whole messages.
    Each message opens a connection first, for `setup_round_trips`, and has its whole rate from then
    on. Slow start is not modelled: a real connection doubles what is under way from ten packets on,
    and is slower for the first log2(rate RTT / (80 MSS)) round trips, rates being in bit/s.
    """

    name: ClassVar[str] = "tcp"

    packet_loss: Annotated[float, "> 0", "< 1", "p, share of packets lost"]
    segment_bytes: Annotated[float, "> 0", "MSS, payload of one packet"] = 1460.0
    setup_round_trips: Annotated[float, ">= 0", "before the first bit; 1 for TCP, 2 with TLS"] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rtt_s == 0:
            raise ValueError("rtt_s: found 0, a connection's rate depends on its round trips")

    def rate_bps(self, uplink: bool) -> float:
        """The direction's own rate, or what the connection reaches."""
        reached_bps = 8.0 * self.segment_bytes / self.rtt_s * np.sqrt(1.5 / self.packet_loss)
        return min(super().rate_bps(uplink), float(reached_bps))

    def transmit(
        self,
        bits: ArrayLike,
        uplink: bool,
        rate_factor: ArrayLike = 1.0,
        jitter: ArrayLike | None = None,
    ) -> TransferCost:
        """The connection's set-up, at the power of the transfer, and then the transfer."""
        stretch = 2.0 * self.setup_round_trips + 1.0  # in halves of a round trip
        return super().transmit(
            bits, uplink, rate_factor, stretch * np.asarray(1.0 if jitter is None else jitter)
        )
