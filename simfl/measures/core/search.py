"""The exhaustive search for convex models and few agents: every coalition is solved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.measures.core.agents import Agents
from simfl.measures.core.answer import Answer
from simfl.measures.core.bootstrap import Bootstrap, coalition_margin
from simfl.measures.core.coalition import TOLERANCE, Gain, Pool, largest_gain

MOST_AGENTS = 10
"""The most agents for which all 2^n - 1 coalitions are searched."""


@dataclass(frozen=True, eq=False)
class Coalitions(Answer):
    """An `Answer` about all coalitions; others may block even if all agents together gain most.

    `smaller_margin` is 1 - max_S F_S over all S except the set of all agents; NaN for a single
    agent.
    """

    smaller_margin: float = float("nan")


def every_coalition(
    agents: Agents,
    theta: FloatArray,
    bootstrap: Bootstrap | None = None,
    *,
    current: FloatArray | None = None,
) -> Coalitions:
    """Whether any of the 2^n - 1 coalitions blocks, for concave utilities and n <= 10.

    `margin` is 1 - max_S F_S. The set of all agents is left out if it cannot gain (F_S = 1, with
    theta itself), unless there is a single agent. `stable` is None if bounds could not be closed.
    `current` as in `largest_gain`; without a predictor of its own there is no interval. Raises
    ValueError for more agents, and if a utility is not positive.
    """
    n = agents.count
    if n > MOST_AGENTS:
        raise ValueError(f"agents: found {n}, accepted: at most {MOST_AGENTS}; use the certificate")
    pool = Pool()
    coalitions = [one for size in range(1, n) for one in combinations(range(n), size)]
    gains = _largest_first(agents, theta, coalitions, pool, current)
    smaller_margin = 1 - max((gain.lower for gain in gains), default=float("nan"))
    everybody = largest_gain(agents, theta, range(n), pool, current=current, floor=1 + TOLERANCE)
    if everybody.upper > 1 + TOLERANCE or not gains:
        gains.append(everybody)
    method = f"all {2**n - 1} coalitions"
    bootstrap = bootstrap if current is None else None
    answer = _tightest(agents, theta, gains, method, bootstrap)
    return Coalitions(**vars(answer), smaller_margin=smaller_margin)


def proportional(agents: Agents, theta: FloatArray, bootstrap: Bootstrap | None = None) -> Answer:
    """Whether u_i(theta) >= (w_i / W) max u_i for every agent (Definition 2; S = {i})."""
    alone = [(one,) for one in range(agents.count)]
    gains = _largest_first(agents, theta, alone, Pool(), None)
    return _tightest(agents, theta, gains, "proportionality over all predictors", bootstrap)


def pareto_optimal(agents: Agents, theta: FloatArray) -> Answer:
    """Whether no predictor is better for all agents (Definition 3); `margin` is <= 0."""
    gains = [largest_gain(agents, theta, range(agents.count))]
    return _tightest(agents, theta, gains, "Pareto optimality over all predictors", None)


def _largest_first(
    agents: Agents,
    theta: FloatArray,
    coalitions: Sequence[tuple[int, ...]],
    pool: Pool,
    current: FloatArray | None,
) -> list[Gain]:
    """The gains of `coalitions`, except those that cannot be the largest.

    A coalition gains at most its share times its members' gain without any loss. The search begins
    with the coalitions that may gain most, and ends when the rest cannot gain as much; of a
    coalition in between it only finds that it gains less.
    """
    served = agents.positive_utilities(theta) if current is None else current
    without_loss = agents.offsets / served

    def bound(coalition: tuple[int, ...]) -> float:
        members = list(coalition)
        share = agents.weights[members].sum() / agents.total_weight
        return float(share * without_loss[members].min())

    gains: list[Gain] = []
    best = -np.inf
    for coalition in sorted(coalitions, key=bound, reverse=True):
        if bound(coalition) <= best:
            break
        gain = largest_gain(agents, theta, coalition, pool, current=current, floor=best)
        gains.append(gain)
        best = max(best, gain.lower)
    return gains


def _tightest(
    agents: Agents,
    theta: FloatArray,
    gains: Sequence[Gain],
    method: str,
    bootstrap: Bootstrap | None,
) -> Answer:
    """The answer from the gains of these coalitions; the largest one is the evidence.

    In the bootstrap a coalition keeps its predictor. There is no interval for all agents together:
    they need a new predictor in each draw, and their margin is at least the certificate's.
    """
    tightest = max(gains, key=lambda gain: gain.lower)
    blocks = tightest.lower > 1 + TOLERANCE
    unknown = any(gain.upper > 1 + 2 * TOLERANCE for gain in gains)
    answer = Answer(
        stable=False if blocks else None if unknown else True,
        margin=1 - tightest.lower,
        method=method,
        tolerance=TOLERANCE,
        blocked_by=tightest.coalition if blocks else (),
        predictor=tightest.predictor,
    )
    if bootstrap is None or 1 < agents.count == len(tightest.coalition):
        return answer
    test = coalition_margin(agents, tightest.coalition)
    spread = bootstrap.margin(agents, [theta, tightest.predictor], test)
    return replace(answer, interval=spread)
