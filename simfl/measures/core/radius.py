"""The radius of pseudo-core stability, for utilities that are not concave.

    epsilon   ||grad Lc(theta)||_2, Lc = sum_i w_i log u_i (Eq. 2)    `gradient_norm`
    beta      smoothness of every u_i within the ball                 `smoothness`
    k > 1     the factor by which a coalition must gain more          `k`
    S1        sum_i w_i / u_i(theta)
    (4)       d = (-epsilon + sqrt(epsilon^2 + 2 beta (k - 1) W S1)) / (beta S1)

theta is (d, k)-pseudo core stable (Definition 5, Theorem 3): no predictor within distance d lets a
coalition S gain by more than k W / W_S.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.measures.core.agents import Agents, require_positive, weights_of
from simfl.measures.core.answer import Answer
from simfl.measures.core.bootstrap import Bootstrap, interval

DIRECTIONS = 5
MOST_ROUNDS = 20


@dataclass(frozen=True, eq=False)
class PseudoCore(Answer):
    """An `Answer` whose margin is the radius d, with what it was computed from."""

    k: float = 1.5
    gradient_norm: float = 0.0
    smoothness: float = 0.0


def pseudo_core_radius(
    utilities: FloatArray,
    gradient_norm: float,
    smoothness: float,
    k: float,
    weights: Sequence[float] | None = None,
) -> float:
    """d of Eq. 4: the positive root of (beta / 2) S1 d^2 + epsilon d = (k - 1) W.

    Raises ValueError unless k > 1 and utilities are positive. Utilities without curvature and
    slope give an infinite radius.
    """
    if not k > 1:
        raise ValueError(f"k: found {k:g}, accepted: a number > 1")
    w = weights_of(utilities, weights)
    gain = (k - 1) * w.sum()
    pull = smoothness * (w / require_positive(utilities)).sum()
    # The root without a difference of nearly equal numbers, which also holds for beta = 0.
    denominator = gradient_norm + np.sqrt(gradient_norm**2 + 2 * pull * gain)
    return float(2 * gain / denominator) if denominator > 0 else float("inf")


def pseudo_core(
    agents: Agents,
    theta: FloatArray,
    rng: np.random.Generator,
    k: float = 1.5,
    bootstrap: Bootstrap | None = None,
) -> PseudoCore:
    """The radius around `theta`, with the smoothness estimated by Hessian-vector products.

    beta is the largest |eigenvalue| that power iteration finds for any agent at theta and at
    distances d / 2 and d in random directions. As d depends on beta, both are updated alternately
    until d changes by less than 1 %, and the smallest d is kept. It is an estimate, not a bound:
    networks with ReLU are not smooth. The bootstrap interval keeps beta fixed.
    """
    utilities, slopes = agents.with_slopes(theta)
    require_positive(utilities)
    w = list(agents.weights)

    def radius(utilities: FloatArray, slopes: FloatArray, smoothness: float) -> float:
        epsilon = float(np.linalg.norm((agents.weights / utilities) @ slopes))
        return pseudo_core_radius(utilities, epsilon, smoothness, k, w)

    smoothness = _smoothness(agents, theta, 0.0, rng)
    d = radius(utilities, slopes, smoothness)
    smallest, kept = d, smoothness
    for _ in range(MOST_ROUNDS):
        if not np.isfinite(d):
            break
        smoothness = _smoothness(agents, theta, d, rng)
        previous, d = d, radius(utilities, slopes, smoothness)
        if d < smallest:
            smallest, kept = d, smoothness
        if abs(d - previous) < 0.01 * previous:
            break
    spread = None
    if bootstrap is not None:
        drawn = (agents.with_slopes(theta, one) for one in bootstrap.counts(agents.model.sizes))
        spread = interval([radius(*one, kept) if (one[0] > 0).all() else 0.0 for one in drawn])
    return PseudoCore(
        stable=True,
        margin=smallest,
        method=f"(d, {k:g})-pseudo core: no coalition gains {k:g} times its share within d",
        tolerance=0.01,
        interval=spread,
        k=k,
        gradient_norm=float(np.linalg.norm((agents.weights / utilities) @ slopes)),
        smoothness=kept,
    )


def _smoothness(agents: Agents, theta: FloatArray, d: float, rng: np.random.Generator) -> float:
    """The largest curvature of any agent's utility found within distance d."""
    return max(
        agents.model.curvature(point, agent, rng.standard_normal(theta.size))
        for point in _points(theta, d, rng)
        for agent in range(agents.count)
    )


def _points(theta: FloatArray, d: float, rng: np.random.Generator) -> Iterator[FloatArray]:
    yield theta
    for distance in (d / 2, d) if d > 0 else ():
        for _ in range(DIRECTIONS):
            direction = rng.standard_normal(theta.size)
            yield theta + distance * direction / np.linalg.norm(direction)
