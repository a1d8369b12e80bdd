"""FedCure's resource allocation: speed weighed against its cost, by the estimated latency.

Source: FedCure (arXiv 2511.10227), Eq. 6 and 16.

Symbols
    f_n, f_max   CPU frequency of client n, and its highest             GHz
    c_n          cycles of the whole dispatch's computation             Gcycles
    That         estimated latency of the client's edge server          s
    alpha, gamma, s   what delay and energy count, and the exponent     so that Z has no unit

    Z(f) = alpha (1 - (c_n / f) / That) - gamma f^s                     Eq. 6
    f*   = min(f_max, (alpha c_n / (s gamma That))^(1 / (s + 1)))       Eq. 16, the root of Z'

A longer latency lowers f*, which lengthens the latency: a contraction (log-slope 1 / (s + 1)). Its
fixed point for one client that only computes is (alpha / (s gamma))^(1 / s) GHz.

Departures
1. The paper gives none of alpha, gamma and s; the defaults make the rule bind at 1 to 3 GHz.
2. Without an estimated latency a client computes as fast as it can.
3. f* is raised to the client's lowest frequency, and rounded to a level of its device.
4. The paper's cost gamma f^s is a utility; joules follow the device's own model and are always
   booked.

Algorithm 2 computes f* once per schedule, with the estimate used to pick the edge server: `decided:
per_dispatch`. With `per_round` it is computed again in every edge round, with the current estimate,
which may change while an edge server has not been observed yet and others report.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.decisions.base import Allocation
from simfl.decisions.views import ClientView

GIGA = 1.0e9


@dataclass(frozen=True)
class FedCure(Allocation):
    """The frequency that balances delay against the cost of speed, given the estimated latency."""

    name: ClassVar[str] = "fedcure"
    looks_at: ClassVar[frozenset[str] | None] = frozenset(
        {"cycles", "edge_latency_s", "frequency_max_hz", "frequency_min_hz"}
    )

    alpha: Annotated[float, "> 0", "weight of delay (alpha)"] = 1.0
    gamma: Annotated[float, "> 0", "weight of the cost of speed, per GHz^s (gamma)"] = 0.25
    s: Annotated[float, "> 0", "exponent of the cost of speed (s)"] = 2.0
    decided: Annotated[
        Literal["per_dispatch", "per_round"],
        "how long a frequency holds: for all edge rounds of a dispatch, or for one",
    ] = "per_dispatch"

    @property
    def once_per_dispatch(self) -> bool:
        """Algorithm 2, line 9."""
        return self.decided == "per_dispatch"

    def decide(self, view: ClientView, rng: np.random.Generator) -> FloatArray:
        """Eq. 16, in Hz."""
        latency_s = np.where(view.edge_latency_s > 0, view.edge_latency_s, np.nan)
        worth = self.alpha * (view.cycles / GIGA) / (self.s * self.gamma * latency_s)
        best_hz = GIGA * worth ** (1.0 / (self.s + 1.0))
        known_hz = np.where(np.isnan(best_hz), np.inf, best_hz)
        return np.clip(known_hz, view.frequency_min_hz, view.frequency_max_hz)
