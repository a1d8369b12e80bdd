"""The certificate for convex models: one training problem covers all coalitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.measures.core.agents import Agents
from simfl.measures.core.answer import Answer
from simfl.measures.core.blocking import blocking, ratio_sum
from simfl.measures.core.bootstrap import Bootstrap
from simfl.measures.core.coalition import TOLERANCE, largest_gain
from simfl.measures.core.concave import maximise

METHOD = "sum certificate over all predictors"

STEPS_OF_DRAWS = 40
"""Steps from the best predictor for the samples to that for a bootstrap draw."""

ONLY_ALL = (
    "no smaller coalition was found to block, but all agents together gain with another predictor:"
    " it is not Pareto optimal, as before the end of training"
)
UNDECIDED = (
    "a predictor has a larger sum of ratios, so it is not the optimum of the Nash welfare, but no"
    " coalition that was tried blocks with it"
)
BEYOND = "the predictor with the largest sum of ratios is at infinity and was not reached"


@dataclass(frozen=True, eq=False)
class Certificate(Answer):
    """An `Answer` whose margin is 1 - max sum of ratios / W, and the coalition that was found.

    `blocking_margin` is that of the coalition `blocked_by`, with `predictor`; NaN if none was
    found. `reason` explains an answer other than that a smaller coalition blocks, or that none
    does.
    """

    blocking_margin: float = float("nan")
    reason: str = ""


def certificate(
    agents: Agents,
    theta: FloatArray,
    bootstrap: Bootstrap | None = None,
    alternatives: Mapping[str, FloatArray] | None = None,
) -> Certificate:
    """Whether max over theta' of sum_i w_i u_i(theta') / u_i(theta) <= W: one training problem.

    For concave utilities. If it holds, no coalition blocks, for any number of agents. If it fails,
    coalitions are searched by the exact test with several predictors: that theta', those trained
    for the half, the quarter, ... of the agents that gain most, and `alternatives` (predictors by
    name). The tightest one counts. If no smaller coalition blocks, all agents together are tried;
    `stable` is None if they do not block either. `margin` is 1 - max / W, at most 0, since theta
    itself gives 0. Raises ValueError if a utility of `theta` is not positive.
    """
    current, w = agents.positive_utilities(theta), list(agents.weights)
    optimum = maximise(agents, agents.weights / current, theta)

    def shortfall(current: FloatArray, alternative: FloatArray) -> float:
        return 1 - ratio_sum(current, alternative, w) / agents.total_weight

    def anew(drawn: Agents, current: FloatArray) -> float:
        pull = agents.weights / current
        best = maximise(drawn, pull, optimum.theta, most_steps=STEPS_OF_DRAWS)
        return min(shortfall(current, best.utilities), 0.0)

    margin = shortfall(current, optimum.utilities)
    holds = optimum.found and margin >= -TOLERANCE
    answer = Certificate(
        stable=True if holds else None,
        margin=margin,
        method=METHOD,
        tolerance=TOLERANCE,
        predictor=optimum.theta,
        interval=bootstrap.of_agents(agents, theta, anew) if bootstrap else None,
    )
    if holds:
        return answer
    found = _blocked(agents, theta, current, optimum.theta, dict(alternatives or {}))
    if found is None or found.predictor is None:
        return replace(answer, reason=UNDECIDED if optimum.found else BEYOND)
    return replace(
        answer,
        stable=False,
        method=f"exact test, after the {METHOD} failed",
        blocked_by=found.blocked_by,
        predictor=found.predictor,
        alternative=found.alternative,
        blocking_margin=found.margin,
        reason=ONLY_ALL if len(found.blocked_by) == agents.count else "",
    )


def _blocked(
    agents: Agents,
    theta: FloatArray,
    current: FloatArray,
    candidate: FloatArray,
    alternatives: dict[str, FloatArray],
) -> Answer | None:
    """The tightest coalition that blocks; all agents only if no smaller one does; None if none is
    found.
    """
    tried = {"the certificate's predictor": candidate, **alternatives}
    order = np.argsort(-agents.utilities(candidate) / current, kind="stable")
    size = agents.count // 2
    while size:
        pull = np.zeros(agents.count)
        pull[order[:size]] = (agents.weights / current)[order[:size]]
        tried[f"that of the {size} agents that gain most"] = maximise(agents, pull, candidate).theta
        size //= 2
    found = []
    for name, predictor in tried.items():
        utilities = agents.utilities(predictor)
        one = blocking(current, utilities, list(agents.weights), TOLERANCE, proper=True)
        if (utilities >= 0).all() and not one.stable:
            found.append(replace(one, predictor=predictor, alternative=name))
    if found:
        return min(found, key=lambda one: one.margin)
    everybody = largest_gain(agents, theta, range(agents.count), floor=1 + TOLERANCE)
    if everybody.lower <= 1 + TOLERANCE:
        return None
    return Answer(
        stable=False,
        margin=1 - everybody.lower,
        method=METHOD,
        tolerance=TOLERANCE,
        blocked_by=everybody.coalition,
        predictor=everybody.predictor,
        alternative="the best for all agents",
    )
