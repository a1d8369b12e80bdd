"""Theorem 5 of FedCure as a check: a bound on the gap to the best loss, version by version.

Source: FedCure (arXiv 2511.10227), Theorem 5 and its proof (Eqs. 48 to 62), for clients that take
full gradient steps on strongly convex losses.

Symbols
    sigma, mu     smoothness and strong convexity of every client's loss F_n
    rho           bound on the norm of its gradient (Lipschitz constant)
    e1            bound on |grad F_n - grad F_m| of a client and its edge server
    e2            bound on |grad F_m - grad F|^2 of an edge server and all
    e3            bound on |grad F_n|^2
    eta, tau_c, tau_e   learning rate < 1 / sigma, local steps, edge rounds
    q             (1 - eta mu)^(tau_c tau_e)
    xi            share with which a version mixes an arriving model in, ell k^phi
    H(x)          (e1 / sigma) ((eta sigma + 1)^x - 1 - eta sigma x)
    drift         rho tau_e H(tau_c) + tau_c tau_e eta e2 / 2

    paper     B_v = (1 - xi) B_(v-1) + xi (q B_(v-1) + e3 / (2 mu) + drift)          Eqs. 48, 53
    windowed  B_v = (1 - xi) B_(v-1) + xi (q B_(v-1-phi) + drift)                    Eqs. 48, 49

Departures
1. Eq. 49's H lacks a bracket, Eq. 55 has a xi too many and Eq. 56 one too few; with these
   corrections the recursion `paper`, at a constant xi, is Eq. 18.
2. e3 / (2 mu) alone is at least the gap at the start, so the paper's bound never shows any
   progress. `windowed` leaves out the step that introduces it: a stale model's gap is bounded by
   the bound of the version that it started from.
3. The suprema are taken over points of a run instead of all weights, where they do not exist: the
   bound is compared with that run's gap, and guarantees nothing for other runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from simfl.common.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Constants:
    """Assumption 1: sigma, mu, rho, e1, e2 (a square) and e3 (a square)."""

    smoothness: float
    convexity: float
    lipschitz: float
    client_difference: float
    edge_difference: float
    gradient_square: float


@dataclass(frozen=True, eq=False)
class Bound:
    """Bounds on the gap at versions 0, 1, ...: the paper's, and the windowed one."""

    paper: FloatArray
    windowed: FloatArray


def convergence_bound(
    constants: Constants,
    gap: float,
    shares: FloatArray,
    staleness: IntArray,
    learning_rate: float,
    local_steps: int,
    edge_rounds: int,
) -> Bound:
    """Bounds after versions mixed in with `shares`, each `staleness` versions old on arrival.

    `gap` is that of version 0. Raises ValueError for a learning rate of 1 / smoothness or more, and
    without strong convexity, because the theorem does not cover such runs.
    """
    one = constants
    if one.convexity <= 0.0:
        raise ValueError(f"convexity: found {one.convexity}, accepted: > 0")
    if learning_rate * one.smoothness >= 1.0:
        raise ValueError(f"learning_rate: found {learning_rate}, accepted: < {1 / one.smoothness}")
    kept = (1.0 - learning_rate * one.convexity) ** (local_steps * edge_rounds)
    step = learning_rate * one.smoothness
    excess = (step + 1.0) ** local_steps - 1.0 - step * local_steps
    drift = one.lipschitz * edge_rounds * one.client_difference / one.smoothness * excess
    drift += local_steps * edge_rounds * learning_rate * one.edge_difference / 2.0
    lost = one.gradient_square / (2.0 * one.convexity) + drift
    paper, windowed = [gap], [gap]
    for share, old in zip(shares, staleness, strict=True):
        paper.append((1.0 - share) * paper[-1] + share * (kept * paper[-1] + lost))
        start = windowed[len(windowed) - 1 - int(old)]
        windowed.append((1.0 - share) * windowed[-1] + share * (kept * start + drift))
    return Bound(np.array(paper), np.array(windowed))


class LogisticTask:
    """Softmax regression with a bias, L2-regularised: the mean loss plus decay / 2 |w|^2.

    `shards` are each client's inputs (rows, features) and classes (rows,), `edge` its edge server;
    weights are (outputs, features + 1), the bias in the last column.
    """

    def __init__(
        self,
        shards: Sequence[tuple[FloatArray, IntArray]],
        edge: IntArray,
        outputs: int,
        decay: float,
    ) -> None:
        self._rows = [np.column_stack([inputs, np.ones(len(inputs))]) for inputs, _ in shards]
        self._targets = [targets for _, targets in shards]
        self._sizes = np.array([len(one) for one in self._targets], dtype=float)
        self._edge = edge
        self._shape = (outputs, self._rows[0].shape[1])
        self._decay = decay

    def loss(self, weights: FloatArray) -> float:
        """F: the regularised mean loss over all clients' examples."""
        fits = [
            -log_softmax(rows @ weights.T, axis=1)[np.arange(len(targets)), targets].mean()
            for rows, targets in zip(self._rows, self._targets, strict=True)
        ]
        mean = float(np.average(fits, weights=self._sizes))
        return mean + self._decay / 2.0 * float((weights**2).sum())

    def optimum(self) -> FloatArray:
        """The weights with the least loss."""
        found = minimize(
            lambda flat: self.loss(flat.reshape(self._shape)),
            np.zeros(self._shape).ravel(),
            jac=lambda flat: self._mean(self.gradients(flat.reshape(self._shape)), slice(None)),
            method="L-BFGS-B",
            options={"maxiter": 10_000, "ftol": 0.0, "gtol": 1e-10},
        )
        best: FloatArray = found.x.reshape(self._shape)
        return best

    def gradients(self, weights: FloatArray) -> FloatArray:
        """grad F_n of every client, shape (clients, weights)."""
        slopes = []
        for rows, targets in zip(self._rows, self._targets, strict=True):
            errors = softmax(rows @ weights.T, axis=1)
            errors[np.arange(len(targets)), targets] -= 1.0
            slopes.append((errors.T @ rows / len(targets) + self._decay * weights).ravel())
        return np.stack(slopes)

    def constants(self, points: Sequence[FloatArray]) -> Constants:
        """Assumption 1, with suprema over the weights in `points`.

        The Hessian of softmax cross-entropy is at most half the inputs' second moment.
        """
        moments = [np.linalg.norm(rows, 2) ** 2 / len(rows) for rows in self._rows]
        client, server, square = 0.0, 0.0, 0.0
        for point in points:
            slopes = self.gradients(point)
            square = max(square, float((slopes**2).sum(axis=1).max()))
            whole = self._mean(slopes, slice(None))
            for edge in np.unique(self._edge):
                own = self._edge == edge
                mean = self._mean(slopes, own)
                client = max(client, float(np.linalg.norm(slopes[own] - mean, axis=1).max()))
                server = max(server, float(((mean - whole) ** 2).sum()))
        return Constants(
            smoothness=float(max(moments)) / 2.0 + self._decay,
            convexity=self._decay,
            lipschitz=square**0.5,
            client_difference=client,
            edge_difference=server,
            gradient_square=square,
        )

    def _mean(self, slopes: FloatArray, which: Any) -> FloatArray:
        """The mean of some clients' gradients, weighted by their numbers of examples."""
        mean: FloatArray = np.average(slopes[which], axis=0, weights=self._sizes[which])
        return mean
