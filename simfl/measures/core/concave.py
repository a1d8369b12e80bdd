"""Maximisation of a weighted sum of concave utilities, used by all certificates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from simfl.common.arrays import FloatArray
from simfl.measures.core.agents import Agents

GRADIENT = 1e-6
"""An optimum counts as found if no entry of the gradient is larger, with weights summing to 1."""


MOST_STEPS = 10_000
"""L-BFGS steps after which the search for an optimum ends."""

FIRST_STEPS = 60
"""Steps after which a predictor is examined that only needs to be better than the known ones."""


@dataclass(frozen=True, eq=False)
class Optimum:
    """A maximiser theta (d,), its utilities (n,), and whether the gradient vanishes there."""

    theta: FloatArray
    utilities: FloatArray
    found: bool


def maximise(
    agents: Agents,
    pull: FloatArray,
    start: FloatArray,
    enough: float = np.inf,
    most_steps: int = MOST_STEPS,
) -> Optimum:
    """theta with the largest sum_i pull_i u_i(theta), pull >= 0, for concave utilities.

    Unconstrained, by L-BFGS from `start` in the coordinates of the agents' conditioner; not `found`
    if the supremum lies at infinity and the gradient does not vanish. The search stops at a
    predictor whose sum exceeds `enough`, found or not, so a supremum at infinity is not approached
    further.
    """
    share = pull / pull.sum()
    condition = agents.model.conditioner(share)
    theta, steps, left = start, FIRST_STEPS, most_steps
    while True:
        theta = _ascended(agents, share, theta, condition, steps if enough < np.inf else left)
        left -= steps if enough < np.inf else left
        utilities, slopes = agents.with_slopes(theta)
        found = bool(np.abs(share @ slopes).max() <= GRADIENT)
        if found or left <= 0 or float(pull @ utilities) > enough:
            return Optimum(theta, utilities, found)
        steps = min(4 * steps, left)


def _ascended(
    agents: Agents,
    share: FloatArray,
    start: FloatArray,
    condition: Callable[[FloatArray], FloatArray],
    steps: int,
) -> FloatArray:
    """The result of this many steps of L-BFGS from `start`, or of fewer if it cannot improve
    further.
    """

    def negative(step: FloatArray) -> tuple[float, FloatArray]:
        loss, gradient = agents.model.weighted(start + condition(step), share)
        return loss, condition(gradient)

    result = minimize(
        negative,
        np.zeros_like(start),
        jac=True,
        method="L-BFGS-B",
        options={
            "maxiter": steps,
            "maxfun": 2 * steps,
            "ftol": 1e-16,
            "gtol": 1e-10,
            "maxcor": 30,
        },
    )
    return np.asarray(start + condition(np.asarray(result.x)))
