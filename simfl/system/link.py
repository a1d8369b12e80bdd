"""Links: how long a message takes and what both ends pay for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from simfl.system.cost import FloatArray, TransferCost


class Link(ABC):
    """Base of every link: a frozen dataclass whose fields are the keys of `link:`.

    `predictable` says that a transfer's duration is known when it starts. A subclass has the
    attributes below: nominal rates, round-trip time with its standard deviation, and what the
    client end's interface draws while it waits.
    """

    predictable: ClassVar[bool] = True

    uplink_bps: float
    downlink_bps: float
    rtt_s: float
    jitter_s: float
    power_idle_w: float

    @abstractmethod
    def transmit(
        self,
        bits: ArrayLike,
        uplink: bool,
        rate_factor: ArrayLike = 1.0,
        jitter: ArrayLike | None = None,
    ) -> TransferCost:
        """Cost of sending `bits` up or down; broadcasts over clients.

        `rate_factor` multiplies the nominal rate, `jitter` the latency (both positive; None is 1).
        No bits, no message: zero seconds and joules.
        """

    @property
    def jitter_sigma(self) -> float:
        """Sigma of the lognormal with mean 1 whose product with `rtt_s` has the sd `jitter_s`."""
        if self.rtt_s == 0:
            return 0.0
        return float(np.sqrt(np.log1p((self.jitter_s / self.rtt_s) ** 2)))


@dataclass(frozen=True)
class FixedRateLink(Link):
    """A dedicated channel: duration = rtt / 2 + bits / rate, in each direction.

    The client end draws, beyond idle, power - power_idle_w + slope * rate for the whole duration
    (Huang et al., MobiSys 2012, and its successors fit radios so); the network spends
    `energy_j_per_byte`.
    """

    name: ClassVar[str] = "fixed_rate"

    uplink_bps: Annotated[float, "> 0"]
    downlink_bps: Annotated[float, "> 0"]
    rtt_s: Annotated[float, ">= 0", "round-trip time; a message takes half of it"]
    power_transmit_w: Annotated[float, ">= 0", "client end's interface while it sends"]
    power_receive_w: Annotated[float, ">= 0", "client end's interface while it receives"]
    power_idle_w: Annotated[float, ">= 0", "client end's interface while it waits"]
    jitter_s: Annotated[float, ">= 0", "standard deviation of the round-trip time"] = 0.0
    slope_up_w_per_bps: Annotated[float, ">= 0", "added to power_transmit_w per bit/s sent"] = 0.0
    slope_down_w_per_bps: Annotated[
        float, ">= 0", "added to power_receive_w per bit/s received"
    ] = 0.0
    energy_j_per_byte: Annotated[float, ">= 0", "spent by the network between the ends"] = 0.0

    def __post_init__(self) -> None:
        if self.jitter_s > 0 and self.rtt_s == 0:
            raise ValueError("jitter_s: a link without rtt_s has no latency that could vary")

    def transmit(
        self,
        bits: ArrayLike,
        uplink: bool,
        rate_factor: ArrayLike = 1.0,
        jitter: ArrayLike | None = None,
    ) -> TransferCost:
        """duration = jitter * rtt / 2 + bits / (rate_factor * rate)."""
        size = np.asarray(bits, dtype=float)
        if uplink:
            nominal_bps, power_w, slope = (
                self.uplink_bps,
                self.power_transmit_w,
                self.slope_up_w_per_bps,
            )
        else:
            nominal_bps, power_w, slope = (
                self.downlink_bps,
                self.power_receive_w,
                self.slope_down_w_per_bps,
            )
        rate_bps = nominal_bps * np.asarray(rate_factor, dtype=float)
        latency_s = self.rtt_s / 2.0 * np.asarray(1.0 if jitter is None else jitter, dtype=float)
        duration_s: FloatArray = np.where(size > 0, latency_s + size / rate_bps, 0.0)
        beyond_idle_w = np.maximum(power_w - self.power_idle_w + slope * rate_bps, 0.0)
        network_j = np.broadcast_to(self.energy_j_per_byte / 8.0 * size, duration_s.shape)
        return TransferCost(duration_s, beyond_idle_w * duration_s, network_j)
