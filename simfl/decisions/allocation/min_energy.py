"""The CPU frequency at which a computation costs the fewest joules.

A busy core draws P_s + kappa f^3 watts above idle power, so that W cycles cost

    E(f) = W (P_s / f + kappa f^2),    least at    f* = (P_s / (2 kappa))^(1/3).

Below f* racing to idle saves energy: the static power is paid for a shorter time. P_s is in W,
kappa in W/Hz^3, f in Hz.

Limits
1. Without static power the lowest frequency is the cheapest.
2. A device whose power follows another law (an accelerator's joules do not depend on its clock)
   computes as fast as it can.
3. The energy of others that wait for a slow client is not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.decisions.base import Allocation
from simfl.decisions.views import ClientView


@dataclass(frozen=True)
class MinEnergy(Allocation):
    """The frequency of least energy for each client, including static power (race to idle)."""

    looks_at: ClassVar[frozenset[str] | None] = frozenset(
        {"frequency_max_hz", "frequency_min_hz", "kappa", "power_static_w"}
    )

    def decide(self, view: ClientView, rng: np.random.Generator) -> FloatArray:
        """f*, within the client's range."""
        law = view.kappa > 0
        cheapest_hz = np.cbrt(view.power_static_w / (2.0 * np.where(law, view.kappa, 1.0)))
        wanted_hz = np.where(law, cheapest_hz, np.inf)
        return np.clip(wanted_hz, view.frequency_min_hz, view.frequency_max_hz)
