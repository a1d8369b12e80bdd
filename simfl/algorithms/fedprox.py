"""FedProx: FedAvg with a proximal term that keeps clients near the global model.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith: Federated Optimization in Heterogeneous Networks,
MLSys 2020, arXiv 1812.06127.

    mu    weight of the proximal term      `mu`
    w^t   global weights received          `Minibatch.start`

"h_k(w; w^t) = F_k(w) + (mu / 2) ||w - w^t||^2" (Eq. 2) is `loss`; aggregation is FedAvg's.

Departures from the paper: 1. aggregation is weighted by data size as in FedAvg, where the paper
samples clients by size and takes the plain mean; 2. every client does the same amount of local
work, where the paper lets stragglers do less. mu = 0 is FedAvg.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from torch import Tensor

from simfl.algorithms.base import Algorithm
from simfl.learning.minibatch import Minibatch
from simfl.learning.parameters import Parameters, squared_distance


@dataclass(frozen=True)
class FedProx(Algorithm):
    """Federated averaging with a proximal term."""

    name: ClassVar[str] = "fedprox"
    paper: ClassVar[str] = "arXiv 1812.06127"

    mu: Annotated[float, ">= 0", "weight of the proximal term"] = 0.01

    def loss(self, parameters: Parameters, batch: Minibatch) -> Tensor:
        """F_k(w) + (mu / 2) ||w - w^t||^2 over the trained tensors, one value per job (Eq. 2)."""
        local = batch.mean_loss(batch.forward(parameters, batch.inputs))
        trained = {name: tensor for name, tensor in parameters.items() if tensor.requires_grad}
        return local + self.mu / 2 * squared_distance(trained, batch.start)
