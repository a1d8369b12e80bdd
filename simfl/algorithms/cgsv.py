"""CGSV: rewards are gradients, the larger the more a client's gradient agrees with the aggregate.

Xu, Lyu, Ma, Miao, Foo, Low: Gradient-Driven Rewards to Guarantee Fairness in Collaborative Machine
Learning, NeurIPS 2021; update rule as in its published code.

    u_i     what client i changed, normalised to length Gamma        `normalisation`
    g       the aggregate, sum_i r_i u_i (n_i / n in round 0)        `Round.step`, `_weights`
    phi_i   cos(u_i, g)
    r_i     reputation, 0.95 r_i + 0.05 phi_i, at least 1e-3, sum 1  `reputation`
    q_i     tanh(beta r_i) / max_k tanh(beta r_k)                    `beta`

Every client goes back to the model that it started the round with and adds, of each tensor of g,
the ceil(q_i * size) largest values (at most size - 1); the server adds all of g.

Departures from the paper: 1. clients that do not take part in a round keep reputation and model; a
client that takes part for the first time counts with its share n_i / n of the participants' data,
and the reputations of the others share the rest; 2. running statistics of BatchNorm are averaged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from simfl.algorithms.base import ServerState
from simfl.algorithms.gradient_rewards import (
    GradientRewards,
    Round,
    flat,
    layerwise_largest,
    moved_reputation,
    normalised_to,
)
from simfl.learning.evaluate import Evaluator
from simfl.learning.job import Update
from simfl.learning.parameters import Parameters
from simfl.learning.sums import weighted_mean


@dataclass(frozen=True)
class Cgsv(GradientRewards):
    """Cosine gradient Shapley value: gradients as rewards."""

    name: ClassVar[str] = "cgsv"
    paper: ClassVar[str] = "NeurIPS 2021"

    beta: Annotated[float, "> 0", "altruism: larger values make rewards more equal"] = 1.0
    normalisation: Annotated[float, "> 0", "Gamma, length of every update"] = 0.5
    memory_share: Annotated[
        float, ">= 0", "< 1", "share of a reputation that is kept per round"
    ] = 0.95

    def _round(
        self,
        state: ServerState,
        updates: Sequence[Update],
        changes: Sequence[Parameters],
        evaluator: Evaluator,
    ) -> Round:
        u = {
            update.client: normalised_to(change, self.normalisation)
            for update, change in zip(updates, changes, strict=True)
        }
        before = state.memory["reputation"]
        held = self._shares(state, before) if before else {}
        g = weighted_mean(list(u.values()), _weights(updates, held))
        phi = {client: _cosine(one, g) for client, one in u.items()}
        reputation = moved_reputation(before, phi, self.memory_share, begin=0.0)
        r = self._shares(state, reputation)
        best = max(math.tanh(self.beta * r[client]) for client in r)
        q = {client: math.tanh(self.beta * r[client]) / best for client in u}
        rewards = {client: layerwise_largest(g, q[client]) for client in u}
        return Round(g, rewards, reputation)


def _weights(updates: Sequence[Update], held: Mapping[int, float]) -> list[float]:
    """r_i of the participants; by data size if they have none, or all are 0.

    Clients without a reputation count by data size, and the other clients share the rest.
    """
    sizes = [float(update.num_examples) for update in updates]
    known = [update.client in held for update in updates]
    r = [held.get(update.client, 0.0) for update in updates]
    if not any(r):
        return sizes
    if all(known):
        return r
    each = list(zip(sizes, r, known, strict=True))
    scale = sum(size for size, _, has in each if has) / sum(r)
    return [scale * mine if has else size for size, mine, has in each]


def _cosine(left: Parameters, right: Parameters) -> float:
    one, other = flat(left).double(), flat(right).double()
    lengths = float(one.norm() * other.norm())
    return float(one @ other) / lengths if lengths else 0.0
