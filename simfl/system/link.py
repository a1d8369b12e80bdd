"""Links: the duration and energy of messages.

Powers are those of the interface at the client end. The model is that of measurements of phones'
radios: power for being active plus a slope times the rate, a promotion before the first message and
a tail after the last (Huang et al., MobiSys 2012, and its successors).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import FloatArray
from simfl.system.cost import TransferCost
from simfl.system.radio_paths import RadioPaths


@dataclass(frozen=True, kw_only=True)
class Link(ABC):
    """Base of every link: a frozen dataclass whose fields are the keys of `link:`.

    `needs_places`: the rate depends on the positions of the ends.
    """

    needs_places: ClassVar[bool] = False

    rtt_s: Annotated[float, ">= 0", "round-trip time; a message takes half of it"]
    power_transmit_w: Annotated[float, ">= 0", "power of the client's interface while it sends"]
    power_receive_w: Annotated[float, ">= 0", "power of the client's interface while it receives"]
    power_idle_w: Annotated[float, ">= 0", "power of the client's interface while it waits"]
    jitter_s: Annotated[float, ">= 0", "standard deviation of the round-trip time"] = 0.0
    slope_up_w_per_bps: Annotated[float, ">= 0", "added to power_transmit_w per bit/s sent"] = 0.0
    slope_down_w_per_bps: Annotated[
        float, ">= 0", "added to power_receive_w per bit/s received"
    ] = 0.0
    energy_j_per_byte: Annotated[float, ">= 0", "energy of the network between the ends"] = 0.0
    promotion_s: Annotated[float, ">= 0", "time that a sleeping radio takes to wake up"] = 0.0
    power_promotion_w: Annotated[
        float | None, ">= 0", "power of the interface while it wakes up"
    ] = None
    tail_s: Annotated[float, ">= 0", "time that the radio stays awake after a message"] = 0.0
    power_tail_w: Annotated[float | None, ">= 0", "power of the interface in its tail"] = None
    duty_cycle: Annotated[float, "> 0", "<= 1", "share of the time in which it may send"] = 1.0
    loss_probability: Annotated[
        float,
        ">= 0",
        "<= 1",
        "probability that an attempt to send a message is lost, only in runs with message_loss",
    ] = 0.0
    shared_channel: Annotated[
        bool, "its rate is that of a channel shared by all clients of an access point, as for Wi-Fi"
    ] = False

    def __post_init__(self) -> None:
        if self.jitter_s > 0 and self.rtt_s == 0:
            raise ValueError(
                f"jitter_s: found {self.jitter_s:g}, accepted: 0, as rtt_s is 0: there is no"
                " latency that could vary"
            )
        for state in ("promotion", "tail"):
            if getattr(self, f"{state}_s") > 0 and getattr(self, f"power_{state}_w") is None:
                raise ValueError(
                    f"power_{state}_w: found nothing, accepted: watts, as {state}_s is"
                    f" {getattr(self, f'{state}_s'):g}"
                )

    def band(self, factor: FloatArray) -> tuple[FloatArray, FloatArray]:
        """SNR over the whole band, and highest bit/s/Hz, for this `factor` of `channel`.

        An infinite ratio, the default, makes the rate proportional to the share of the band.
        """
        return np.full_like(factor, np.inf), np.ones_like(factor)

    @property
    def bands_hz(self) -> tuple[float, float] | None:
        """Width of the band up and down; None if the link has no band to share."""
        return None

    @abstractmethod
    def rate_bps(self, uplink: bool) -> float:
        """Bits per second up or down if all factors on the rate are 1."""

    def channel(self, paths: RadioPaths) -> FloatArray:
        """The radio channel's factor on the rate, per transfer; called if `needs_places`."""
        return np.ones(len(paths.clients))

    def transmit(
        self,
        bits: ArrayLike,
        uplink: bool,
        rate_factor: ArrayLike = 1.0,
        jitter: ArrayLike | None = None,
    ) -> TransferCost:
        """Cost of sending `bits` up or down with the radio awake; broadcasts over clients.

        duration = jitter * rtt / 2 + bits / (rate_factor * rate * duty cycle). The client end
        draws, beyond idle, power - idle + slope * rate during the latency and while bits are sent,
        but not while the duty cycle forbids sending. `rate_factor` multiplies the rate, `jitter`
        the latency (both positive; None is 1). Without bits there is no message: zero seconds and
        joules.
        """
        size = np.asarray(bits, dtype=float)
        power_w = self.power_transmit_w if uplink else self.power_receive_w
        slope = self.slope_up_w_per_bps if uplink else self.slope_down_w_per_bps
        rate_bps = self.rate_bps(uplink) * np.asarray(rate_factor, dtype=float)
        latency_s = self.rtt_s / 2.0 * np.asarray(1.0 if jitter is None else jitter, dtype=float)
        active_s: FloatArray = np.where(size > 0, latency_s + size / rate_bps, 0.0)
        silent_s = size / rate_bps * (1.0 / self.duty_cycle - 1.0)
        beyond_idle_w = np.maximum(power_w - self.power_idle_w + slope * rate_bps, 0.0)
        network_j = np.broadcast_to(self.energy_j_per_byte / 8.0 * size, active_s.shape)
        return TransferCost(active_s + silent_s, beyond_idle_w * active_s, network_j)

    @property
    def jitter_sigma(self) -> float:
        """Sigma of a lognormal factor with mean 1 that gives `rtt_s` the deviation `jitter_s`."""
        if self.rtt_s == 0:
            return 0.0
        return float(np.sqrt(np.log1p((self.jitter_s / self.rtt_s) ** 2)))


@dataclass(frozen=True, kw_only=True)
class FixedRateLink(Link):
    """A dedicated channel: duration = rtt / 2 + bits / rate, in each direction."""

    name: ClassVar[str] = "fixed_rate"

    uplink_bps: Annotated[float, "> 0"]
    downlink_bps: Annotated[float, "> 0"]

    def rate_bps(self, uplink: bool) -> float:
        """The configured rate of the direction."""
        return self.uplink_bps if uplink else self.downlink_bps
