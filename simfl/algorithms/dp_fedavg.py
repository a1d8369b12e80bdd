"""DP-FedAvg: each client's change is clipped, and noise in the mean hides any single client.

McMahan, Ramage, Talwar, Zhang: Learning Differentially Private Recurrent Language Models, ICLR
2018, arXiv 1710.06963.

    theta_t      the server's model                                 `ServerState.weights`
    Delta_k      client k's change                                  `changes`
    S            largest norm of a change (L2, over all tensors)    `clip`
    z            noise scale, a multiple of S                       `noise_multiplier`
    m            clients whose changes arrived                      updates
    sigma        standard deviation of the mean's noise, z S / m    `aggregate`

Algorithm 1, with flat clipping: "Delta <- Delta min(1, S / ||Delta||)", and the server's "theta <-
theta + mean(Delta) + N(0, sigma^2)". Every client counts the same (w_k = 1), so that one client
moves the sum by at most S. The server draws the noise once; m clients that each add noise of
variance (z S)^2 / m to their message give the same distribution, provided that the server sees
nothing but the sum (`secure_aggregation`). S is 1 by default and should be tuned: `report` logs the
share of changes that was clipped. That the paper uses z = 1, and S = 15 for a language model, is
from memory and was not checked.

The measure `privacy` (`pip install 'simfl[privacy]'`) computes epsilon; without it there is none.

Departures from the paper: 1. the selection rule draws the clients, while the paper includes each
one independently with some probability; the mean divides by the number of changes that arrived,
while the paper's first estimator divides by the expected number; 2. models with running statistics
(BatchNorm) are refused, because these could not be kept private.

Known limits: privacy holds for whole clients, not for single examples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import torch

from simfl.algorithms.base import Algorithm, ClientFacts, ServerState, Trait
from simfl.algorithms.steps import changes
from simfl.learning.evaluate import Evaluator
from simfl.learning.job import Recipe, Update
from simfl.learning.network import Network
from simfl.learning.parameters import Parameters, add
from simfl.learning.sums import weighted_sum
from simfl.streams import Streams

ACCOUNTED = (
    "the privacy accounting assumes one server whose releases each use freshly drawn clients"
)


@dataclass(frozen=True)
class DpFedAvg(Algorithm):
    """Federated averaging with client-level differential privacy."""

    name: ClassVar[str] = "dp_fedavg"
    paper: ClassVar[str] = "arXiv 1710.06963"
    refusals: ClassVar[Mapping[Trait, str]] = {
        "hierarchical": ACCOUNTED,
        "takes_stale_updates": ACCOUNTED,
    }

    clip: Annotated[float, "> 0", "S, largest L2 norm of a client's change"] = 1.0
    noise_multiplier: Annotated[float, ">= 0", "z, the noise of the sum as a multiple of S"] = 1.0

    def check_network(self, network: Network) -> None:
        """Refuses running statistics: they would be sent without clipping and noise."""
        if network.buffer_names:
            raise ValueError(
                f"its running statistics ({network.buffer_names[0]}) are not clipped, and would"
                " reveal about clients what the noise should hide; accepted: a model without"
                " BatchNorm"
            )

    def start(
        self, network: Network, clients: Mapping[int, ClientFacts], evaluator: Evaluator, seed: int
    ) -> ServerState:
        """Fresh weights, and the seed of the noise."""
        state = super().start(network, clients, evaluator, seed)
        return replace(state, memory={"seed": seed})

    def recipe(self, network: Network, version: int) -> Recipe:
        """Plain training, of the parameters that are clipped."""
        return replace(super().recipe(network, version), trainable=network.trainable_names)

    def aggregate(
        self, state: ServerState, updates: Sequence[Update], evaluator: Evaluator
    ) -> ServerState:
        """theta + (sum_k Delta_k min(1, S / ||Delta_k||) + N(0, (z S)^2)) / m."""
        each = changes(updates)
        kept = [min(1.0, self.clip / norm) if norm else 1.0 for norm in map(_norm, each)]
        mean = weighted_sum(each, [share / len(updates) for share in kept])
        sigma = self.noise_multiplier * self.clip / len(updates)
        weights = add(state.weights, mean)
        if sigma:
            weights = add(weights, self._noise(state, mean), scale=sigma)
        return replace(state, weights=weights)

    def _noise(self, state: ServerState, like: Parameters) -> Parameters:
        """Standard normal numbers of this version."""
        seed = Streams(state.memory["seed"]).seed("privacy", 0, state.version)
        generator = torch.Generator().manual_seed(seed)
        return {
            name: torch.randn(like[name].shape, generator=generator, dtype=torch.float64).to(
                like[name]
            )
            for name in sorted(like)
        }

    def report(self, state: ServerState, updates: Sequence[Update]) -> dict[str, Any]:
        """`value` is the share of changes that are clipped; `norms` are those before clipping."""
        norms = [_norm(change) for change in changes(updates)]
        clipped = sum(norm > self.clip for norm in norms)
        return {"value": clipped / len(norms), "norms": norms}


def _norm(change: Parameters) -> float:
    """L2, over all tensors."""
    squares = [one.square().sum(dtype=torch.float64) for one in change.values()]
    return float(torch.stack(squares).sum().sqrt())
