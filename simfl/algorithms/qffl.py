"""q-FFL: clients with larger losses count more; q sets how much more.

Li, Sanjabi, Beirami, Smith: Fair Resource Allocation in Federated Learning, ICLR 2020,
arXiv 1905.10497.

    q          weight of fairness; 0 is the uniform mean, infinity the worst client   `q`
    F_k        mean loss of theta on client k's data, before training (+ 1e-10)       `F`
    L = 1/eta  Lipschitz constant, from the learning rate                             `local`
    Dw_k       L (theta - theta_k)                                                    `changes`
    Delta_k    F_k^q Dw_k
    h_k        q F_k^{q-1} ||Dw_k||^2 + L F_k^q

Algorithm 2 (q-FedAvg): "theta <- theta - sum_k Delta_k / sum_k h_k" is `aggregate`. With
`local: {steps: 1}` the change is one mini-batch gradient, which is q-FedSGD.

Departures from the paper: 1. clients are sampled by the selection rule, while the paper samples
them by data size; 2. running statistics of BatchNorm are averaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
import torch

from simfl.algorithms.base import Algorithm, ServerState
from simfl.algorithms.measured import (
    loss_report,
    losses_before,
    measured_price,
    measured_recipe,
)
from simfl.algorithms.steps import changes, step_along
from simfl.common.arrays import FloatArray
from simfl.learning.evaluate import Evaluator
from simfl.learning.job import Price, Recipe, Update
from simfl.learning.network import Network
from simfl.learning.parameters import Parameters

SMALLEST_LOSS = 1e-10
"""Added to every loss, so that powers of it are finite."""


@dataclass(frozen=True)
class QFfl(Algorithm):
    """q-fair federated learning (q-FedAvg)."""

    name: ClassVar[str] = "qffl"
    paper: ClassVar[str] = "arXiv 1905.10497"

    q: Annotated[float, ">= 0", "weight of fairness; 0 is the uniform mean"] = 1.0

    def recipe(self, network: Network, version: int) -> Recipe:
        """Measure F_k at theta, then train."""
        return measured_recipe(network, self.local.at(version))

    def price(self, network: Network, client: int, version: int) -> Price:
        """theta down; Delta_k, h_k and F_k up: 4 P + 8 bytes."""
        return measured_price(network, figures=2)

    def aggregate(
        self, state: ServerState, updates: Sequence[Update], evaluator: Evaluator
    ) -> ServerState:
        """theta - sum_k Delta_k / sum_k h_k (Algorithm 2)."""
        return replace(state, weights=step_along(state, updates, self._coefficients(updates)))

    def report(self, state: ServerState, updates: Sequence[Update]) -> dict[str, Any]:
        """`value` is the largest loss; per client its loss and the coefficient of its change."""
        return loss_report(updates, coefficients=self._coefficients(updates))

    def _coefficients(self, updates: Sequence[Update]) -> FloatArray:
        """The coefficient of each client's change theta_k - theta: L F_k^q / sum_k h_k."""
        F = losses_before(updates) + SMALLEST_LOSS
        L = np.array([1 / update.brief.recipe.local.learning_rate for update in updates])
        squared = L**2 * np.array([_squared_norm(change) for change in changes(updates)])
        h = self.q * F ** (self.q - 1) * squared + L * F**self.q
        coefficients: FloatArray = L * F**self.q / h.sum()
        return coefficients


def _squared_norm(change: Parameters) -> float:
    return sum(float(step.square().sum(dtype=torch.float64)) for step in change.values())
