"""A trained model with its clients' data, for certificates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from simfl.learning.datasets.base import Examples
from simfl.learning.flat import FlatLosses
from simfl.learning.network import Network
from simfl.learning.parameters import Parameters


@dataclass(frozen=True, eq=False)
class Federation:
    """`weights` are the shared model's; `agents` each client's training data.

    `tests` are each client's share of the test set, by its labels; empty for a regression.
    """

    network: Network
    weights: Parameters
    agents: Sequence[Examples]
    tests: Sequence[Examples] = ()

    def losses(self, *, of_tests: bool = False, exact: bool = False) -> FlatLosses:
        """The agents' losses on their training data, or on their shares of the test set.

        `exact` computes in float64, whatever the model was trained in.
        """
        network, weights = self.network, self.weights
        if exact:
            network = network.cast(torch.float64)
            weights = {
                name: tensor.double() if tensor.is_floating_point() else tensor
                for name, tensor in weights.items()
            }
        return FlatLosses(network, weights, self.tests if of_tests else self.agents)
