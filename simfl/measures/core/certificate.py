"""Convex models and any number of agents: one training problem certifies all coalitions at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.measures.core.agents import Agents
from simfl.measures.core.answer import Answer
from simfl.measures.core.blocking import blocking, ratio_sum
from simfl.measures.core.bootstrap import Bootstrap, coalition_margin
from simfl.measures.core.coalition import TOLERANCE
from simfl.measures.core.concave import maximise

METHOD = "sum certificate over all predictors"


def certificate(
    agents: Agents,
    theta: FloatArray,
    bootstrap: Bootstrap | None = None,
    alternatives: Mapping[str, FloatArray] | None = None,
) -> Answer:
    """Whether max over theta' of sum_i w_i u_i(theta') / u_i(theta) <= W: one training problem.

    For concave utilities. Where it holds no coalition blocks, however many agents there are. Where
    it fails, coalitions are looked for by the exact test: with that theta', with what the half,
    the quarter, ... of the agents that gain most would train, and with `alternatives` (predictors
    by name); `stable` is None if none of them blocks. `margin` is 1 - max / W, at most 0: theta
    itself gives 0. Raises ValueError where a utility of `theta` is not positive.
    """
    current, w = agents.positive_utilities(theta), list(agents.weights)
    optimum = maximise(agents, agents.weights / current, theta)

    def shortfall(current: FloatArray, alternative: FloatArray) -> float:
        return 1 - ratio_sum(current, alternative, w) / agents.total_weight

    margin = shortfall(current, optimum.utilities)
    holds = optimum.found and margin >= -TOLERANCE
    if not holds:
        found = _blocked(agents, theta, current, optimum.theta, dict(alternatives or {}))
        if found is not None:
            spread = None
            if bootstrap is not None and found.predictor is not None:
                test = coalition_margin(agents, found.blocked_by)
                spread = bootstrap.margin(agents, [theta, found.predictor], test)
            return replace(found, interval=spread)
    spread = bootstrap.margin(agents, [theta, optimum.theta], shortfall) if bootstrap else None
    return Answer(
        stable=True if holds else None,
        margin=margin,
        method=METHOD,
        tolerance=TOLERANCE,
        predictor=optimum.theta,
        interval=spread,
    )


def _blocked(
    agents: Agents,
    theta: FloatArray,
    current: FloatArray,
    candidate: FloatArray,
    alternatives: dict[str, FloatArray],
) -> Answer | None:
    """The first coalition found to block; None if there was none."""
    tried = {"the certificate's predictor": candidate, **alternatives}
    order = np.argsort(-agents.utilities(candidate) / current, kind="stable")
    size = agents.count // 2
    while size:
        pull = np.zeros(agents.count)
        pull[order[:size]] = (agents.weights / current)[order[:size]]
        tried[f"that of the {size} who gain most"] = maximise(agents, pull, candidate).theta
        size //= 2
    for name, predictor in tried.items():
        utilities = agents.utilities(predictor)
        found = blocking(current, utilities, list(agents.weights), TOLERANCE)
        if (utilities >= 0).all() and not found.stable:
            method = f"exact test, after the {METHOD} failed"
            return replace(found, method=method, predictor=predictor, alternative=name)
    return None
