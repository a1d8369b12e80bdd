"""FedAVE: rewards are gradients, scaled by accuracy and by the fit of a client's data.

Wang, Peng, He, Chen, Yu, Wang, Fan: FedAVE: Adaptive data value evaluation framework for
collaborative fairness in federated learning, Neurocomputing 2024; update rule as in its published
code.

    a_i, b_i  losses of client i's trained model per batch of 64, on its own data and on the
              server's validation set, cut to equal length, each summing to 1
    D_i       1 / KL(a_i || b_i), divided by the largest           `_fit`
    s_i       score: validation accuracy of the trained model * D_i^2
    r_i       reputation: s_i at first, then 0.95 r_i + 0.05 s_i, at least 1e-3, sum 1
    q_i       tanh(beta r_i) / max_k tanh(beta r_k) * D_i          `beta`
    u_i, g    as in CGSV; g = sum_i n_i / n u_i

Every client goes back to the model that it started the round with and adds, of each tensor of g,
the ceil(q_i * size) largest values; in its first round all of g. The server adds all of g.

Departures from the paper: 1. losses are at least 1e-12, and KL 1e-8; 2. clients that do not take
part in a round keep reputation and model; 3. running statistics of BatchNorm are averaged; 4. the
bytes of a_i, which clients send, are not counted. Departures from its code: 5. a_i and b_i are
those of the trained models; the code takes the models with which the round begins; 6. the code
rewards nobody in the first round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from simfl.algorithms.base import ServerState
from simfl.algorithms.gradient_rewards import (
    GradientRewards,
    Reward,
    Round,
    layerwise_largest,
    moved_reputation,
    normalised_to,
)
from simfl.learning.evaluate import Evaluator, client_set
from simfl.learning.job import Price, Update
from simfl.learning.network import Network
from simfl.learning.parameters import Parameters
from simfl.learning.sums import weighted_mean

FORWARD_SHARE = 1 / 3
"""The work of a forward pass, as a share of a training step."""

SMALLEST_LOSS = 1e-12
"""The smallest loss of a batch: a perfectly fitted one rounds to 0, which has no logarithm."""


@dataclass(frozen=True)
class FedAve(GradientRewards):
    """Adaptive data value evaluation."""

    name: ClassVar[str] = "fedave"
    paper: ClassVar[str] = "Neurocomputing 2024"
    needs_validation: ClassVar[bool] = True

    beta: Annotated[float, "> 0", "larger values make rewards more equal"] = 5.0
    normalisation: Annotated[float, "> 0", "length of every update"] = 0.5
    memory_share: Annotated[
        float, ">= 0", "< 1", "share of a reputation that is kept per round"
    ] = 0.95
    loss_batch: Annotated[int, ">= 1", "examples per batch of the lists of losses"] = 64

    def _round(
        self,
        state: ServerState,
        updates: Sequence[Update],
        changes: Sequence[Parameters],
        evaluator: Evaluator,
    ) -> Round:
        clients = [update.client for update in updates]
        trained = [{**update.brief.start, **update.payload} for update in updates]
        fits = [
            self._fit(model, client, evaluator)
            for model, client in zip(trained, clients, strict=True)
        ]
        D = {client: fit / max(fits) for client, fit in zip(clients, fits, strict=True)}
        u = [normalised_to(change, self.normalisation) for change in changes]
        g = weighted_mean(u, [update.num_examples for update in updates])
        found = evaluator.metrics_of_each(([model] for model in trained), "validation")
        score = {
            client: one.accuracy * D[client] ** 2
            for client, one in zip(clients, found, strict=True)
        }
        before = state.memory["reputation"]
        reputation = moved_reputation(before, score, self.memory_share, begin=None)
        r = self._shares(state, reputation)
        best = max(math.tanh(self.beta * r[client]) for client in r)
        whole = Reward(g, sum(tensor.numel() for tensor in g.values()))
        rewards = {
            client: layerwise_largest(g, math.tanh(self.beta * r[client]) / best * D[client])
            if client in before
            else whole
            for client in clients
        }
        return Round(g, rewards, reputation)

    def validation_passes(self, network: Network, version: int, updates: int) -> float:
        """The server evaluates every client's trained model on the validation set."""
        return float(updates)

    def _turn(self, network: Network, state: ServerState, client: int) -> Price:
        """One more forward pass over the client's data, for its list of losses."""
        examples = state.memory["known"][client]["examples"]
        more = FORWARD_SHARE / float(self.local.passes(examples))
        return replace(super()._turn(network, state, client), work=1.0 + more)

    def _fit(self, model: Parameters, client: int, evaluator: Evaluator) -> float:
        """1 / KL(a || b) for a client's trained model."""
        a = evaluator.batch_losses(model, self.loss_batch, client_set(client))
        b = evaluator.batch_losses(model, self.loss_batch)
        length = min(len(a), len(b))
        a, b = (one[:length].clamp(min=SMALLEST_LOSS) for one in (a, b))
        a, b = (one / one.sum() for one in (a, b))
        divergence = float((a * (a / b).log()).sum())
        return 1.0 / max(divergence, 1e-8)
