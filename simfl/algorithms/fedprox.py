"""FedProx: FedAvg with a proximal term that keeps clients near the global model.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith: Federated Optimization in Heterogeneous Networks,
MLSys 2020, arXiv 1812.06127.

    mu    weight of the proximal term      `mu`
    w^t   global weights received          `Brief.start`

"h_k(w; w^t) = F_k(w) + (mu / 2) ||w - w^t||^2" (Eq. 2) is the recipe's `proximal`; aggregation is
FedAvg's.

Departures from the paper: 1. aggregation is weighted by data size as in FedAvg, while the paper
samples clients by size and takes the plain mean; 2. every client does the same amount of local
work unless `local.partial` says otherwise (the paper's stragglers: `{clients: 0.5}` or 0.9). mu = 0
is FedAvg.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from simfl.algorithms.base import Algorithm
from simfl.learning.job import Recipe
from simfl.learning.network import Network


@dataclass(frozen=True)
class FedProx(Algorithm):
    """Federated averaging with a proximal term."""

    name: ClassVar[str] = "fedprox"
    paper: ClassVar[str] = "arXiv 1812.06127"

    mu: Annotated[float, ">= 0", "weight of the proximal term"] = 0.01

    def recipe(self, network: Network, version: int) -> Recipe:
        """Minimise F_k(w) + (mu / 2) ||w - w^t||^2 over the parameters that train (Eq. 2)."""
        return replace(super().recipe(network, version), proximal=self.mu)
