"""FedOpt: the server's optimizer uses the clients' mean change as a gradient.

Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan: Adaptive Federated Optimization,
ICLR 2021, arXiv 2003.00295: FedAdagrad, FedAdam, FedYogi. With momentum FedAvgM: Hsu, Qi, Brown:
Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification, 2019,
arXiv 1909.06335.

    x_t           the server's model                          `ServerState.weights`
    Delta_i       client i's change, x_{i,K} - x_t            `changes`
    Delta_t       their mean by data size, the pseudo-gradient
    m_t, v_t      first and second moments of Delta_t         `memory["moments"]`
    eta           the server's step size                      `server_learning_rate`
    beta_1        of m_t                                      `beta_1`
    beta_2        of v_t                                      `beta_2`
    tau           adaptivity, the smaller the more            `tau`

Algorithm 2; comments give its line numbers (which were not checked). v_{-1} is tau^2, its smallest
value. FedAvgM is "m <- beta_1 m + Delta, x <- x + eta m". beta_1 0.9 (0 in FedAdagrad), beta_2 0.99
and tau 0.001 are those of the paper's experiments; the paper tunes eta for each task on a grid from
0.001 to 10, and the default 0.1 is simfl's choice.

Departures from the paper: 1. Algorithm 2 has the plain mean of the changes; 2. running statistics
of BatchNorm have no gradient and are averaged; 3. when servers' states are mixed, their moments are
mixed too, with the same shares.

Known limits: `fedsgd` with `server_optimizer: adam` is torch's Adam, with bias correction and
epsilon; Algorithm 2 has neither. Every edge server has its own moments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import torch

from simfl.algorithms.base import Algorithm, ClientFacts, ServerState
from simfl.algorithms.steps import changes, statistics
from simfl.learning.evaluate import Evaluator
from simfl.learning.job import Recipe, Update
from simfl.learning.network import Network
from simfl.learning.parameters import Parameters
from simfl.learning.sums import weighted_mean, weighted_sum

KNOWN_AS = {"fedavgm": "momentum", "fedadagrad": "adagrad", "fedadam": "adam", "fedyogi": "yogi"}
"""The papers' names of FedOpt with each server optimizer."""


@dataclass(frozen=True)
class FedOpt(Algorithm):
    """Adaptive federated optimization: FedAvgM, FedAdagrad, FedAdam, FedYogi."""

    name: ClassVar[str] = "fedopt"
    paper: ClassVar[str] = "arXiv 2003.00295"

    server_optimizer: Annotated[
        Literal["momentum", "adagrad", "adam", "yogi"],
        "the server's optimizer: FedAvgM, FedAdagrad, FedAdam or FedYogi",
    ] = "adam"
    server_learning_rate: Annotated[float, "> 0", "eta"] = 0.1
    beta_1: Annotated[
        float | None, ">= 0", "< 1", "share of m that is kept; null: 0.9, and 0 with adagrad"
    ] = None
    beta_2: Annotated[float, ">= 0", "< 1", "share of v that is kept, with adam and yogi"] = 0.99
    tau: Annotated[float, "> 0", "adaptivity: added to the square root of v"] = 1e-3

    @classmethod
    def meant_by(cls, name: str) -> str:
        """How to write a name of the papers here; an empty text for any other name."""
        optimizer = KNOWN_AS.get(name.lower().replace("_", ""))
        return f"{{name: fedopt, server_optimizer: {optimizer}}}" if optimizer else ""

    @property
    def idle_keys(self) -> dict[str, str]:
        """Keys that the chosen optimizer does not use."""
        idle = super().idle_keys
        if self.server_optimizer in ("momentum", "adagrad"):
            idle["beta_2"] = "only adam and yogi use it"
        if self.server_optimizer == "momentum":
            idle["tau"] = "FedAvgM divides by no second moment"
        return idle

    def start(
        self, network: Network, clients: Mapping[int, ClientFacts], evaluator: Evaluator, seed: int
    ) -> ServerState:
        """m is zero, v is tau^2."""
        state = super().start(network, clients, evaluator, seed)
        like = {name: state.weights[name] for name in network.trainable_names}
        m = {name: torch.zeros_like(one) for name, one in like.items()}
        v = {name: torch.full_like(one, self.tau**2) for name, one in like.items()}
        return replace(state, memory={"moments": (m, v)})

    def recipe(self, network: Network, version: int) -> Recipe:
        """Plain training; the server must tell parameters from running statistics."""
        return replace(super().recipe(network, version), trainable=network.trainable_names)

    def aggregate(
        self, state: ServerState, updates: Sequence[Update], evaluator: Evaluator
    ) -> ServerState:
        """One step of the server's optimizer along Delta_t (Algorithm 2, lines 8 to 13)."""
        Delta = weighted_mean(changes(updates), [update.num_examples for update in updates])
        m, v = state.memory["moments"]
        m = {name: self._first(m[name], one) for name, one in Delta.items()}
        if self.server_optimizer == "momentum":
            step = m
        else:
            v = {name: self._second(v[name], one.square()) for name, one in Delta.items()}
            step = {name: m[name] / (v[name].sqrt() + self.tau) for name in m}  # line 13
        eta = self.server_learning_rate
        stepped = {name: state.weights[name] + eta * one for name, one in step.items()}
        return replace(
            state,
            weights={**state.weights, **statistics(updates), **stepped},
            memory={"moments": (m, v)},
        )

    def _first(self, m: torch.Tensor, Delta: torch.Tensor) -> torch.Tensor:
        """m_t (line 9); FedAvgM adds all of Delta_t."""
        beta = self.beta_1
        if beta is None:
            beta = 0.0 if self.server_optimizer == "adagrad" else 0.9
        share = 1.0 if self.server_optimizer == "momentum" else 1.0 - beta
        return beta * m + share * Delta

    def _second(self, v: torch.Tensor, squared: torch.Tensor) -> torch.Tensor:
        """v_t from Delta_t^2."""
        if self.server_optimizer == "adagrad":
            return v + squared  # line 10
        if self.server_optimizer == "yogi":
            return v - (1.0 - self.beta_2) * squared * (v - squared).sign()  # line 11
        return self.beta_2 * v + (1.0 - self.beta_2) * squared  # line 12

    def merge(
        self, state: ServerState, lower: Sequence[ServerState], shares: Sequence[float]
    ) -> ServerState:
        """Moments are mixed like the weights."""
        members = [one.memory["moments"] for one in (state, *lower)]
        each = [1.0 - sum(shares), *shares]
        m, v = (_mixed([one[place] for one in members], each) for place in (0, 1))
        return replace(super().merge(state, lower, shares), memory={"moments": (m, v)})


def _mixed(members: Sequence[Parameters], shares: Sequence[float]) -> Parameters:
    return weighted_sum(members, shares)
