"""The largest weighted sum of concave utilities: the problem under all certificates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from simfl.common.arrays import FloatArray
from simfl.measures.core.agents import Agents

GRADIENT = 1e-6
"""An optimum counts as found where no entry of the gradient is larger, pulls summing to 1."""


@dataclass(frozen=True, eq=False)
class Optimum:
    """A maximiser theta (d,), its utilities (n,), and whether the gradient vanishes there."""

    theta: FloatArray
    utilities: FloatArray
    found: bool


def maximise(agents: Agents, pull: FloatArray, start: FloatArray) -> Optimum:
    """theta with the largest sum_i pull_i u_i(theta), pull >= 0, for concave utilities.

    Unconstrained, by L-BFGS from `start` in the coordinates of the agents' conditioner; not `found`
    where the supremum lies at infinity and the gradient does not vanish on the way.
    """
    share = pull / pull.sum()
    condition = agents.model.conditioner(share)

    def negative(step: FloatArray) -> tuple[float, FloatArray]:
        utilities, slopes = agents.with_slopes(start + condition(step))
        return -float(share @ utilities), -condition(share @ slopes)

    result = minimize(
        negative,
        np.zeros_like(start),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 10_000, "maxfun": 20_000, "ftol": 1e-16, "gtol": 1e-10, "maxcor": 30},
    )
    theta = start + condition(np.asarray(result.x))
    utilities, slopes = agents.with_slopes(theta)
    return Optimum(theta, utilities, bool(np.abs(share @ slopes).max() <= GRADIENT))
