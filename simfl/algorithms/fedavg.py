"""FedAvg: local SGD, then the mean of the client models weighted by data size.

McMahan, Moore, Ramage, Hampson, Aguera y Arcas: Communication-Efficient Learning of Deep Networks
from Decentralized Data, AISTATS 2017, arXiv 1602.05629.

    E, B, eta   local epochs, batch size, learning rate   `local`
    n_k, n      examples of client k, of all participants  `Update.num_examples`
    w_t         global weights                             `ServerState.weights`

Algorithm 1: ClientUpdate is the trainer's loop over `loss`; the server's line
"w_{t+1} <- sum_k (n_k / n) w^k_{t+1}" is `aggregate`. All of it is the base class's behaviour.

Departures from the paper: none. Weights are those of the participants' data, summing to 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from simfl.algorithms.base import Algorithm


@dataclass(frozen=True)
class FedAvg(Algorithm):
    """Federated averaging."""

    name: ClassVar[str] = "fedavg"
    paper: ClassVar[str] = "arXiv 1602.05629"
