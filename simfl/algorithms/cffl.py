"""CFFL: clients exchange gradient values; reputation and data decide how many each one gets.

Lyu, Xu, Wang, Yu: Collaborative Fairness in Federated Learning, 2020, arXiv 2008.12161; update rule
as in its published code.

    u_i       what client i changed, clipped to +-0.01            `clip`
    theta_u   share of values that clients upload                 `upload_share`
    v_i       validation accuracy of the server's model + upload
    R         the reputable clients
    r_i       0.8 r_i + 0.2 v_i / sum_R v, then sinh(alpha r_i) / sum_R sinh(alpha r)
    alpha     5 (1 + round / T)                                   `punishment`, `rounds`
    c_th      r_i below it leaves R: (1/3) / |R|                  `threshold`
    A         sum_R w_i upload_i; w_i = 1, n_i / n or classes_i   `weights`

The server adds A. Client i adds its own clipped change, and floor(r_i / max r * n_i / max n * P) of
A's values, the largest ones, less w'_i times its own upload, with w'_i = 1, n_i / max n or
classes_i. classes_i is client i's share of all classes, which then also replaces n_i / max n.

Departures from the paper, and choices that it leaves open: 1. reputations begin equal; 2. a client
that has left R keeps its model unchanged and costs nothing any more; 3. with `reward_by:
contribution` nobody leaves R; 4. running statistics of BatchNorm are averaged; 5. of the two ways
to choose a download, the largest values or a random order, only the first is implemented.
Departures from its code: 6. of equally large values, as those that `clip` has cut, only as many are
sent as the share allows, the first ones; the code sends all of them; 7. n and max n are those of R;
in the code those of all clients; 8. with `upload_share: 1` the code takes v_i from client i's own
model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from torch import Tensor

from simfl.algorithms.base import ServerState, Unmodelled
from simfl.algorithms.gradient_rewards import (
    GradientRewards,
    Reward,
    Round,
    flat,
    largest,
    unflat,
)
from simfl.algorithms.positions import message_bytes
from simfl.learning.evaluate import Evaluator
from simfl.learning.job import Price, Update
from simfl.learning.network import Network
from simfl.learning.parameters import BYTES_PER_VALUE, Parameters, add
from simfl.learning.sums import weighted_sum

KEPT_PER_ROUND = 0.8
"""The share of a reputation that is kept from round to round."""

LARGEST_EXPONENT = 700.0
"""Above it, sinh soon exceeds the range of floats."""

SMALLEST_SUM = 1e-12
"""Used as the sum of accuracies if all of them are 0."""


@dataclass(frozen=True)
class Cffl(GradientRewards):
    """Collaborative fair federated learning."""

    name: ClassVar[str] = "cffl"
    paper: ClassVar[str] = "arXiv 2008.12161"
    needs_validation: ClassVar[bool] = True
    uncoded: ClassVar[Mapping[Unmodelled, str]] = {
        **GradientRewards.uncoded,
        "uplink": "clients send the largest values of their changes, and keep all of them",
    }

    reputation_keys: ClassVar[tuple[str, ...]] = ("punishment", "rounds", "threshold")

    upload_share: Annotated[float, "> 0", "<= 1", "theta_u, share of values uploaded"] = 0.1
    clip: Annotated[float, "> 0", "largest change of a value in a round"] = 0.01
    weights: Literal["sum", "examples", "classes"] = "examples"
    punishment: Annotated[float, "> 0", "alpha of the first round"] = 5.0
    rounds: Annotated[int, ">= 1", "T, rounds after which alpha has doubled"] = 50
    threshold: Annotated[
        float, ">= 0", "< 1", "c_th, as a share of an equal share: below it a client leaves R"
    ] = 1 / 3

    def _round(
        self,
        state: ServerState,
        updates: Sequence[Update],
        changes: Sequence[Parameters],
        evaluator: Evaluator,
    ) -> Round:
        like, u, uploads = changes[0], {}, {}
        for update, change in zip(updates, changes, strict=True):
            if not self._has_left(state, update.client):
                u[update.client] = flat(change).clamp(-self.clip, self.clip)
                count = self._uploaded(len(u[update.client]))
                uploads[update.client] = largest(u[update.client], count)
        reputation = self._reputation(state, uploads, like, evaluator)
        r = self._shares(state, reputation)
        by_reputation = self.reward_by == "reputation"
        R = [client for client in uploads if r[client] > 0 or not by_reputation]
        best = max((r[client] for client in R), default=0.0)
        if not best:
            return Round({}, {}, reputation)
        size = self._relative_sizes(state, R)
        w = self._weights(size)
        A = weighted_sum([{"values": uploads[i]} for i in R], [w[i] for i in R])["values"]
        rewards = {}
        for i in R:
            values = math.floor(r[i] / best * size[i] * len(A))
            own = 1.0 if self.weights == "sum" else size[i]
            gained = u[i] + largest(A, values) - own * uploads[i]
            rewards[i] = Reward(unflat(gained, like), min(values, int(A.count_nonzero())))
        return Round(unflat(A, like), rewards, reputation)

    def validation_passes(self, network: Network, version: int, updates: int) -> float:
        """The server evaluates its model plus each upload on the validation set."""
        return float(updates) if self.reward_by == "reputation" else 0.0

    def _turn(self, network: Network, state: ServerState, client: int) -> Price:
        """The upload's values; nothing for a client that has left R."""
        if self._has_left(state, client):
            return Price(down_bytes=0, up_bytes=0, work=0.0)
        values = sum(state.weights[name].numel() for name in network.trainable_names)
        rest = network.size_bytes - BYTES_PER_VALUE * values
        sparse = message_bytes(values, self._uploaded(values), self.positions)
        return Price(down_bytes=0, up_bytes=sparse + rest)

    def _uploaded(self, values: int) -> int:
        """How many values a client uploads; rounded first, 0.1 * 30 being a little more than 3."""
        return math.ceil(round(self.upload_share * values, 6))

    def _has_left(self, state: ServerState, client: int) -> bool:
        return self.reward_by == "reputation" and state.memory["reputation"].get(client) == 0.0

    def _relative_sizes(self, state: ServerState, R: Sequence[int]) -> dict[int, float]:
        """Each reputable client's examples relative to the largest, or its share of all classes."""
        known = state.memory["known"]
        if self.weights == "classes":
            return {i: known[i]["classes"] for i in R}
        most = max(known[i]["examples"] for i in R)
        return {i: known[i]["examples"] / most for i in R}

    def _weights(self, size: Mapping[int, float]) -> dict[int, float]:
        """w_i of the reputable clients, from their relative sizes."""
        if self.weights == "sum":
            return dict.fromkeys(size, 1.0)
        total = sum(size.values()) if self.weights == "examples" else 1.0
        return {i: one / total for i, one in size.items()}

    def _reputation(
        self,
        state: ServerState,
        uploads: Mapping[int, Tensor],
        like: Parameters,
        evaluator: Evaluator,
    ) -> dict[int, float]:
        """Every client's r after this round; 0 if it has left R."""
        if self.reward_by == "contribution":
            return {}
        found = evaluator.metrics_of_each(
            ([add(state.weights, unflat(one, like))] for one in uploads.values()), "validation"
        )
        v = {client: one.accuracy for client, one in zip(uploads, found, strict=True)}
        held = dict(state.memory["reputation"])
        inside = [i for i in state.memory["models"] if held.get(i) != 0.0]
        for i in inside:
            held.setdefault(i, 1 / len(inside))
        total = max(sum(v.values()), SMALLEST_SUM)
        alpha = self.punishment * (1 + state.version / self.rounds)
        for i in uploads:
            held[i] = KEPT_PER_ROUND * held[i] + (1 - KEPT_PER_ROUND) * v[i] / total
        peak = alpha * max(held[i] for i in inside)
        r = {i: _sinh_below(alpha * held[i], peak) for i in inside}
        r = {i: one / sum(r.values()) for i, one in r.items()}
        stay = {i: one for i, one in r.items() if one >= self.threshold / len(inside)}
        kept = {i: one / sum(stay.values()) for i, one in stay.items()}
        return {**dict.fromkeys(held, 0.0), **kept}


def _sinh_below(exponent: float, peak: float) -> float:
    """sinh(x), or e^(x - peak), which is proportional to it, if the largest sinh is not finite."""
    return math.sinh(exponent) if peak < LARGEST_EXPONENT else math.exp(exponent - peak)
