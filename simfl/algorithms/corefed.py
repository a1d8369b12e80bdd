"""CoreFed: gradient ascent on the product of the agents' utilities; its maximum is core-stable.

Ray Chaudhury, Li, Kang, Li, Mehta: Fairness in Federated Learning via Core-Stability, NeurIPS 2022,
arXiv 2211.02091.

    M_i          utility offset of agent i, above any loss (nats)   `offset`
    L_i(theta)   mean loss of theta on agent i's whole data (nats)  `Update.measures["loss_before"]`
    u_i          utility M_i - L_i (nats)                           `utilities`
    w_i          weight of agent i (weighted core, section 4.5)     `weights`
    S_t          agents that take part in round t                   `updates`
    Delta_s      theta_s - theta^t, what local training changed     `measured.changes`
    E, B, eta    local epochs, batch size, learning rate            `local`

    (1)  u_i(theta) = M_i - L_i(theta)
    (2)  maximise Lc(theta) = sum_i w_i log u_i(theta)              the Nash welfare
    (3)  grad Lc = -sum_i w_i grad L_i / (M_i - L_i)

Algorithm 1: "L_s <- mean loss of theta^t over D_s" is the recipe's measure, ClientUpdate the
trainer's loop, and "theta^{t+1} <- theta^t + (1/|S_t|) sum_s Delta_s / (M_s - L_s)" is `aggregate`.
With one full-batch step per round this is theta^t + (eta/n) grad Lc(theta^t).

Departures from the paper: 1. it assumes u_i > 0, which its own M = 1 on MNIST violates at the start
(an untrained network has a loss of ln 10): `guard` decides what happens then, and the log has each
round's utilities and the rule applied; 2. `step: normalized` divides by the sum of the weights w_s
/ u_s, so that the length of the step does not depend on the utilities' size (a control, not in the
paper); 3. running statistics of BatchNorm have no gradient and are averaged; 4. weights are
normalised over the participants.

Known limits: every edge server takes this step over its own clients, and the cloud averages by data
size, so that only `weights: examples` is weighted CoreFed over all agents. With one update per
aggregation (asynchronous) `step: normalized` is FedAvg.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from simfl.algorithms.base import Algorithm, ClientFacts, ServerState
from simfl.algorithms.measured import losses_before, measured_price, measured_recipe
from simfl.algorithms.steps import step_along
from simfl.common.arrays import FloatArray
from simfl.learning.evaluate import Evaluator
from simfl.learning.job import Price, Recipe, Update
from simfl.learning.network import Network

WARMUP_SHARE = 0.05
"""`warmup` takes the mean by `weights` in rounds with a utility below this share of its offset."""

CLAMP_SHARE = 0.1
"""`clamp` raises utilities to at least this share of their offset."""

ADAPTIVE_MARGIN = 0.05
"""`adaptive` keeps an offset this share above the largest loss seen."""


class UtilityNotPositive(ValueError):
    """A client's loss has reached its offset, and `guard: error` ends the run."""


@dataclass(frozen=True)
class CoreFed(Algorithm):
    """Core-stable federated learning: changes are weighted by 1 / utility, utility = offset - loss.

    `guard` decides what happens if a utility is not positive: `warmup` takes the mean by `weights`
    in every round in which some participant's utility is below 5 % of its offset, `error` ends the
    run, `clamp` raises utilities to at least 10 % of their offset, `adaptive` raises an offset to
    105 % of the largest loss seen.
    """

    name: ClassVar[str] = "corefed"
    paper: ClassVar[str] = "arXiv 2211.02091"

    offset: Annotated[
        float | tuple[float, ...],
        "> 0",
        "M, above any loss: one for all clients, or a list with one for each",
    ] = 3.0
    weights: Annotated[
        Literal["uniform", "examples"] | tuple[float, ...],
        "> 0",
        "w, weights of clients: equal, their data size (examples), or a list with one for each",
    ] = "uniform"
    step: Annotated[
        Literal["paper", "normalized"], "the divisor of the step: the sum of w, or of w / utility"
    ] = "paper"
    guard: Literal["warmup", "error", "clamp", "adaptive"] = "warmup"

    def check_clients(self, count: int) -> None:
        """Checks that a list of offsets or weights has one entry per client."""
        for key in ("offset", "weights"):
            given = getattr(self, key)
            if isinstance(given, tuple) and len(given) != count:
                raise ValueError(
                    f"{key}: found {len(given)} values, accepted: one for each of the {count}"
                    " clients"
                )

    def start(
        self, network: Network, clients: Mapping[int, ClientFacts], evaluator: Evaluator, seed: int
    ) -> ServerState:
        """Fresh weights; `adaptive` also remembers raised offsets."""
        memory: dict[str, Any] = {"offsets": {}} if self.guard == "adaptive" else {}
        return replace(super().start(network, clients, evaluator, seed), memory=memory)

    def recipe(self, network: Network, version: int) -> Recipe:
        """Algorithm 1, client: L_s at theta^t over the whole data, then E epochs of SGD."""
        return measured_recipe(network, self.local.at(version))

    def price(self, network: Network, client: int, version: int) -> Price:
        """theta down; Delta_s and L_s up: 4 P and 4 P + 4 bytes."""
        return measured_price(network)

    def aggregate(
        self, state: ServerState, updates: Sequence[Update], evaluator: Evaluator
    ) -> ServerState:
        """Algorithm 1, server: theta + sum_s w_s Delta_s / (M_s - L_s) / sum_s w_s.

        Raises `UtilityNotPositive` with `guard: error` where a utility is not positive.
        """
        offsets = self._offsets(state, updates)
        coefficients, _ = self._coefficients(updates, offsets)
        state = replace(state, weights=step_along(state, updates, coefficients))
        if self.guard != "adaptive":
            return state
        raised = {one.client: float(M) for one, M in zip(updates, offsets, strict=True)}
        return replace(state, memory={"offsets": {**state.memory["offsets"], **raised}})

    def merge(
        self, state: ServerState, lower: Sequence[ServerState], shares: Sequence[float]
    ) -> ServerState:
        """Weights are mixed; the larger of two raised offsets is kept."""
        merged = super().merge(state, lower, shares)
        if self.guard != "adaptive":
            return merged
        offsets: dict[int, float] = {}
        for one in (state, *lower):
            for client, offset in one.memory["offsets"].items():
                offsets[client] = max(offset, offsets.get(client, offset))
        return replace(merged, memory={"offsets": offsets})

    def report(self, state: ServerState, updates: Sequence[Update]) -> dict[str, Any]:
        """`value` is the smallest utility; per client its loss, offset, utility and coefficient."""
        offsets = self._offsets(state, updates)
        losses = losses_before(updates)
        coefficients, rule = self._coefficients(updates, offsets)
        return {
            "value": float((offsets - losses).min()),
            "rule": rule,
            "clients": [update.client for update in updates],
            "losses": losses.tolist(),
            "offsets": offsets.tolist(),
            "utilities": (offsets - losses).tolist(),
            "coefficients": coefficients.tolist(),
        }

    def _offsets(self, state: ServerState, updates: Sequence[Update]) -> FloatArray:
        """M_s of the participants."""
        stated = [
            self.offset[update.client] if isinstance(self.offset, tuple) else self.offset
            for update in updates
        ]
        if self.guard != "adaptive":
            return np.array(stated)
        held = state.memory["offsets"]
        known = [held.get(one.client, M) for one, M in zip(updates, stated, strict=True)]
        return np.maximum(known, (1 + ADAPTIVE_MARGIN) * losses_before(updates))

    def _coefficients(
        self, updates: Sequence[Update], offsets: FloatArray
    ) -> tuple[FloatArray, str]:
        """The factor of each Delta_s, and the rule applied: (1), then (3)."""
        w = self._weights(updates)
        utilities = offsets - losses_before(updates)
        if self.guard == "warmup" and not (utilities >= WARMUP_SHARE * offsets).all():
            return w / w.sum(), "warmup"
        if self.guard == "clamp":
            utilities = np.maximum(utilities, CLAMP_SHARE * offsets)
        if (utilities <= 0).any():
            worst = int(utilities.argmin())
            utility, offset = utilities[worst], offsets[worst]
            raise UtilityNotPositive(
                f"guard: client {updates[worst].client} has the utility {utility:g} (offset"
                f" {offset:g} - loss {offset - utility:g}); accepted: an offset above every loss,"
                " or guard warmup, clamp or adaptive"
            )
        pull = w / utilities
        return pull / (w.sum() if self.step == "paper" else pull.sum()), self.step

    def _weights(self, updates: Sequence[Update]) -> FloatArray:
        """w_s of the participants."""
        if isinstance(self.weights, tuple):
            return np.array([self.weights[update.client] for update in updates])
        if self.weights == "examples":
            return np.array([float(update.num_examples) for update in updates])
        return np.ones(len(updates))
