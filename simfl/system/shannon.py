"""Radio links with rates from the channel: Shannon's capacity with a gap.

r = eta b min(log2(1 + p h / (Gamma F N0 b)), se_max)

r rate (bit/s), b bandwidth (Hz), p *radiated* power (W; what the radio drains is another figure,
`power_transmit_w`), h gain of the path, N0 noise density (W/Hz), F noise figure, Gamma gap between
capacity and real codes, eta share of the band that carries data, se_max bit/s/Hz of the best
modulation. The gain is path loss, lognormal shadowing per path and block Rayleigh fading per
transfer: h = 10^(-(PL + X)/10) |g|^2, X ~ N(0, sigma^2), |g|^2 ~ Exp(1).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import FloatArray
from simfl.system.link import Link
from simfl.system.radio_paths import RadioPaths

THERMAL_NOISE_W_PER_HZ = 10.0**-20.4
"""-174 dBm/Hz, thermal noise at 290 K: 3.98e-21 W/Hz."""


def capacity_bps(bandwidth_hz: ArrayLike, snr: ArrayLike) -> FloatArray:
    """Shannon's capacity b log2(1 + snr), in bit/s."""
    per_hz = np.log1p(np.asarray(snr, dtype=float)) / np.log(2.0)
    rate: FloatArray = np.asarray(bandwidth_hz, dtype=float) * per_hz
    return rate


@dataclass(frozen=True, kw_only=True)
class ShannonLink(Link):
    """Base of the radio links; a subclass defines the path loss."""

    needs_places: ClassVar[bool] = True

    uplink_bandwidth_hz: Annotated[float, "> 0", "bandwidth of the client's transmission"]
    downlink_bandwidth_hz: Annotated[float, "> 0", "bandwidth of the transmission to the client"]
    uplink_radiated_w: Annotated[float, "> 0", "radiated power of the client, less than it draws"]
    downlink_radiated_w: Annotated[
        float, "> 0", "radiated power of the access point, to one client"
    ]
    noise_figure_db: Annotated[float, ">= 0", "noise figure of the receivers, 7 to 9 for real ones"]
    noise_w_per_hz: Annotated[float, "> 0", "noise density"] = THERMAL_NOISE_W_PER_HZ
    snr_gap_db: Annotated[float, ">= 0", "gap between capacity and real codes"] = 0.0
    bandwidth_efficiency: Annotated[float, "> 0", "<= 1", "share of the band that carries data"] = (
        1.0
    )
    spectral_efficiency_max: Annotated[float, "> 0", "bit/s/Hz of the best modulation"] = 7.4
    fading_blocks: Annotated[
        int, ">= 0", "number of fading gains that a message is averaged over; 0: no fading"
    ] = 1

    @abstractmethod
    def loss_db(self, paths: RadioPaths) -> FloatArray:
        """Path loss and shadowing of each path, in decibels."""

    def snr(self, paths: RadioPaths) -> FloatArray:
        """SNR of each transfer over its whole band and per fading block, including the gap.

        Shape (transfers, blocks); 1 is 0 dB.
        """
        bandwidth_hz = self.uplink_bandwidth_hz if paths.uplink else self.downlink_bandwidth_hz
        radiated_w = self.uplink_radiated_w if paths.uplink else self.downlink_radiated_w
        lost_db = self.loss_db(paths) + self.noise_figure_db + self.snr_gap_db
        mean = radiated_w * 10.0 ** (-lost_db / 10.0) / (self.noise_w_per_hz * bandwidth_hz)
        ratio: FloatArray = mean[:, None] * paths.fading(self.fading_blocks)
        return ratio

    def rate_bps(self, uplink: bool) -> float:
        """The rate of the best modulation, which `channel` multiplies."""
        bandwidth_hz = self.uplink_bandwidth_hz if uplink else self.downlink_bandwidth_hz
        return bandwidth_hz * self.bandwidth_efficiency * self.spectral_efficiency_max

    @property
    def bands_hz(self) -> tuple[float, float]:
        """The bandwidths."""
        return self.uplink_bandwidth_hz, self.downlink_bandwidth_hz

    def band(self, factor: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The SNR at which the whole band carries `factor` of the best modulation's rate."""
        snr: FloatArray = np.expm1(factor * self.spectral_efficiency_max * np.log(2.0))
        return snr, np.full_like(factor, self.spectral_efficiency_max)

    def channel(self, paths: RadioPaths) -> FloatArray:
        """The channel's rate relative to the best modulation's, averaged over fading blocks."""
        efficiency = np.minimum(capacity_bps(1.0, self.snr(paths)), self.spectral_efficiency_max)
        factor: FloatArray = efficiency.mean(axis=1) / self.spectral_efficiency_max
        return factor
