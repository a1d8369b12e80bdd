"""3GPP's street canyon: urban micro cells with and without line of sight.

3GPP TR 38.901, Table 7.4.1-1 (UMi - Street Canyon) and 7.4.2-1. Distances in metres, f in GHz:
    LOS   32.4 + 21 log10(d3) + 20 log10(f), beyond the breakpoint
          32.4 + 40 log10(d3) + 20 log10(f) - 9.5 log10(dBP^2 + (hBS - hUT)^2)
    NLOS  max(LOS, 22.4 + 35.3 log10(d3) + 21.3 log10(f) - 0.3 (hUT - 1.5))
    P(LOS) = 1 up to 18 m, then 18/d2 + exp(-d2/36) (1 - 18/d2)
with d2 on the ground, d3 between the antennas, dBP = 4 (hBS - 1)(hUT - 1) f / c.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import FloatArray
from simfl.system.radio_paths import RadioPaths
from simfl.system.shannon import ShannonLink

LIGHT_M_PER_S = 3.0e8
"""As rounded in the table."""
VALID_FROM_M = 10.0
"""The table's smallest distance on the ground; it is used for nearer clients."""


def line_of_sight_probability(distance_m: ArrayLike) -> FloatArray:
    """P(LOS) at a distance on the ground in metres."""
    far_m = np.maximum(np.asarray(distance_m, dtype=float), 18.0)
    probability: FloatArray = 18.0 / far_m + np.exp(-far_m / 36.0) * (1.0 - 18.0 / far_m)
    return probability


@dataclass(frozen=True, kw_only=True)
class UmiRadio(ShannonLink):
    """Shannon rate over 3GPP's urban micro street canyon, sight and shadowing drawn per path."""

    name: ClassVar[str] = "umi_radio"

    carrier_hz: Annotated[float, ">= 5e8", "<= 1e11", "carrier frequency"]
    client_height_m: Annotated[float, ">= 1.5", "<= 22.5", "height of the client's antenna"] = 1.5
    station_height_m: Annotated[float, "> 1", "height of the access point's antenna"] = 10.0
    shadowing_sight_db: Annotated[
        float, ">= 0", "standard deviation between paths with line of sight"
    ] = 4.0
    shadowing_blocked_db: Annotated[
        float, ">= 0", "standard deviation between paths without line of sight"
    ] = 7.82

    def path_loss_db(self, distance_m: ArrayLike, sight: ArrayLike) -> FloatArray:
        """Path loss at distances between the antennas, for paths with (True) and without sight."""
        d3_m, frequency_ghz = np.asarray(distance_m, dtype=float), self.carrier_hz / 1e9
        above_m = self.station_height_m - self.client_height_m
        break_m = (
            4.0
            * (self.station_height_m - 1.0)
            * (self.client_height_m - 1.0)
            * (self.carrier_hz / LIGHT_M_PER_S)
        )
        open_db = 32.4 + 20.0 * np.log10(frequency_ghz)
        near_db = open_db + 21.0 * np.log10(d3_m)
        far_db = open_db + 40.0 * np.log10(d3_m) - 9.5 * np.log10(break_m**2 + above_m**2)
        sight_db = np.where(d3_m**2 <= break_m**2 + above_m**2, near_db, far_db)
        blocked_db = (
            22.4
            + 35.3 * np.log10(d3_m)
            + 21.3 * np.log10(frequency_ghz)
            - 0.3 * (self.client_height_m - 1.5)
        )
        lost: FloatArray = np.where(sight, sight_db, np.maximum(sight_db, blocked_db))
        return lost

    def loss_db(self, paths: RadioPaths) -> FloatArray:
        """Path loss plus the path's shadowing."""
        ground_m = np.maximum(paths.distance_m, VALID_FROM_M)
        sight = paths.uniform("line_of_sight") < line_of_sight_probability(ground_m)
        distance_m = np.hypot(ground_m, self.station_height_m - self.client_height_m)
        sigma_db = np.where(sight, self.shadowing_sight_db, self.shadowing_blocked_db)
        return self.path_loss_db(distance_m, sight) + sigma_db * paths.normal("shadowing")
