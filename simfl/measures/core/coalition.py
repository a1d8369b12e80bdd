"""The largest gain of one coalition of agents with concave utilities, with its predictor.

    F_S = max over theta' in P of min_{i in S} (W_S / W) u_i(theta') / u_i(theta)

is a concave program; S blocks theta if F_S > 1. Column generation (Dantzig, Wolfe 1960) solves it
from both sides. Over the predictors found so far, the best mixture is a linear program: by
concavity the mixed predictor is at least as good for everybody, which gives the lower bound. Its
multipliers lambda (of S) and nu (of u_j >= 0 for all others) define one weighted training problem,
whose value is an upper bound by duality, and whose solution is the next predictor. If a model can
separate the agents' classes, there is no best predictor, only a supremum at infinity. So a training
problem is not solved to its end if a better predictor has been found. The first problem has equal
multipliers; its upper bound often settles that a coalition gains less than another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import linprog

from simfl.common.arrays import FloatArray, IntArray
from simfl.measures.core.agents import Agents, require_positive
from simfl.measures.core.blocking import ROUNDING
from simfl.measures.core.concave import Optimum, maximise

TOLERANCE = 1e-6
"""A coalition blocks if F_S exceeds 1 by more than this; bounds that are closer count as equal."""

MOST_ROUNDS = 200

EVEN_STEPS = 500
"""Steps of the search with equal multipliers, which often settles that F_S is too small."""


@dataclass
class Pool:
    """Predictors found so far with their utilities; those found for one coalition help the next."""

    thetas: list[FloatArray] = field(default_factory=list)
    utilities: list[FloatArray] = field(default_factory=list)

    def add(self, optimum: Optimum) -> None:
        """Store a predictor."""
        self.thetas.append(optimum.theta)
        self.utilities.append(optimum.utilities)


@dataclass(frozen=True, eq=False)
class Gain:
    """lower <= F_S <= upper, and the predictor (d,) that attains `lower`."""

    coalition: tuple[int, ...]
    lower: float
    upper: float
    predictor: FloatArray


def largest_gain(
    agents: Agents,
    theta: FloatArray,
    coalition: Sequence[int],
    pool: Pool | None = None,
    *,
    current: FloatArray | None = None,
    floor: float = -np.inf,
) -> Gain:
    """F_S of `coalition` for the predictor `theta`, up to TOLERANCE.

    `current` are the utilities in question if they are not those of theta, as when agents are
    served their own models; theta is then only the start of the search. Bounds are not improved
    further once F_S is known to be at most `floor`. `upper` is infinite if no training problem had
    a solution (a supremum at infinity). Raises ValueError if a utility is not positive, or one of
    theta's is negative.
    """
    current = agents.positive_utilities(theta) if current is None else require_positive(current)
    pool = Pool() if pool is None else pool
    if not pool.thetas:
        pool.add(_feasible(agents, theta))
    members = np.array(coalition)
    others = np.setdiff1d(np.arange(agents.count), members)
    scale = agents.weights[members].sum() / agents.total_weight / current[members]
    lower, upper, best = -np.inf, _cannot_exceed(agents, members, scale), theta
    even = np.zeros(agents.count)
    even[members] = scale / members.size
    optimum = maximise(agents, even, theta, most_steps=EVEN_STEPS)
    pool.add(optimum)
    if optimum.found:
        upper = min(upper, float(even @ optimum.utilities))
    for _ in range(MOST_ROUNDS):
        mixture = _best_mixture(np.array(pool.utilities), members, others, scale)
        candidate = mixture.shares @ np.array(pool.thetas)
        utilities = agents.utilities(candidate)
        gain = float((scale * utilities[members]).min())
        if gain > lower and (utilities[others] >= -ROUNDING).all():
            lower, best = gain, candidate
        if upper <= max(lower + TOLERANCE, floor):
            break
        optimum = maximise(agents, mixture.pull, candidate, enough=mixture.value + TOLERANCE)
        pool.add(optimum)
        bound = float(mixture.pull @ optimum.utilities)
        if optimum.found:
            upper = min(upper, bound)
        if bound <= mixture.value + TOLERANCE / 10:
            break
    return Gain(tuple(members.tolist()), lower, upper, best)


def feasible(agents: Agents, theta: FloatArray) -> FloatArray | None:
    """A predictor (d,) without negative utilities, `theta` if it is one; None if none was found.

    Found by increasing the least utility, stopping early.
    """
    if (agents.utilities(theta) >= 0).all():
        return theta
    pool = Pool()
    for start in (theta, np.zeros_like(theta)):
        utilities = agents.utilities(start)
        if np.isfinite(utilities).all():  # training may have diverged
            pool.add(Optimum(start, utilities, found=False))
    everybody = np.arange(agents.count)
    for _ in range(MOST_ROUNDS):
        utilities = np.array(pool.utilities)
        mixture = _best_mixture(utilities, everybody, everybody[:0], np.ones(agents.count))
        candidate = mixture.shares @ np.array(pool.thetas)
        if (agents.utilities(candidate) >= 0).all():
            return np.asarray(candidate)
        optimum = maximise(agents, mixture.pull, candidate, enough=mixture.value + TOLERANCE)
        pool.add(optimum)
        if float(mixture.pull @ optimum.utilities) <= mixture.value + TOLERANCE / 10:
            break
    return None


def _cannot_exceed(agents: Agents, members: IntArray, scale: FloatArray) -> float:
    """F_S of a hypothetical predictor without any loss."""
    return float((scale * agents.offsets[members]).min())


def _feasible(agents: Agents, theta: FloatArray) -> Optimum:
    utilities = agents.utilities(theta)
    if (utilities < 0).any():
        raise ValueError(
            f"theta: found a utility of {utilities.min():g}, accepted: no negative utility"
        )
    return Optimum(theta, utilities, found=True)


@dataclass(frozen=True, eq=False)
class _Mixture:
    """Shares of the pool's predictors, the multipliers of all agents, and the program's value."""

    shares: FloatArray
    pull: FloatArray
    value: float


def _best_mixture(
    utilities: FloatArray, members: IntArray, others: IntArray, scale: FloatArray
) -> _Mixture:
    """max t with sum_k mu_k scale_i u_ki >= t (i in S), sum_k mu_k u_kj >= 0 (j not in S)."""
    predictors = len(utilities)
    gains = np.hstack([-(utilities[:, members] * scale).T, np.ones((members.size, 1))])
    bounds = np.hstack([-utilities[:, others].T, np.zeros((others.size, 1))])
    found = linprog(
        c=np.append(np.zeros(predictors), -1.0),
        A_ub=np.vstack([gains, bounds]),
        b_ub=np.zeros(members.size + others.size),
        A_eq=np.append(np.ones(predictors), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * predictors + [(None, None)],
        method="highs",
    )
    multipliers = np.maximum(-found.ineqlin.marginals, 0.0)
    pull = np.zeros(members.size + others.size)
    pull[members] = multipliers[: members.size] * scale
    pull[others] = multipliers[members.size :]
    return _Mixture(np.asarray(found.x[:-1]), pull, float(-found.fun))
