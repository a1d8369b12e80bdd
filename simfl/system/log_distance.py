"""The radio link of most papers: path loss grows with the logarithm of distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.system.radio_paths import RadioPaths
from simfl.system.shannon import ShannonLink


@dataclass(frozen=True, kw_only=True)
class LogDistanceRadio(ShannonLink):
    """Shannon rate over PL = PL0 + 10 n log10(d / d0) + X, X ~ N(0, shadowing^2) per path.

    The macro cell 128.1 + 37.6 log10(d / km) is PL0 128.1, d0 1000 m, n 3.76, shadowing 8 dB;
    h = 1e-4 d^-4 (Tran et al., INFOCOM 2019) is PL0 40, d0 1 m, n 4.
    """

    name: ClassVar[str] = "log_distance_radio"

    path_loss_db: Annotated[float, "PL0, at the reference distance"]
    path_loss_distance_m: Annotated[float, "> 0", "d0, the reference distance"]
    path_loss_exponent: Annotated[float, ">= 0", "n, 2 in free space to 4"]
    shadowing_db: Annotated[float, ">= 0", "standard deviation between paths"] = 0.0
    distance_min_m: Annotated[
        float, "> 0", "smallest distance; nearer clients count as this far"
    ] = 1.0

    def loss_db(self, paths: RadioPaths) -> FloatArray:
        """Path loss plus the path's shadowing."""
        distance_m = np.maximum(paths.distance_m, self.distance_min_m)
        decades = np.log10(distance_m / self.path_loss_distance_m)
        lost: FloatArray = self.path_loss_db + 10.0 * self.path_loss_exponent * decades
        return lost + self.shadowing_db * paths.normal("shadowing")
