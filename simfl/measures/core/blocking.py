"""Whether a coalition blocks with a given alternative predictor, and its sum of ratios.

Everything here is arithmetic on two vectors of utilities, of theta (`current`) and of theta'
(`alternative`), whatever the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.measures.core.agents import require_positive, weights_of
from simfl.measures.core.answer import Answer

EXACT = 1e-9
"""The least gain of one agent, if nothing is optimised."""

ROUNDING = 1e-12
"""The tolerance of a gain for rounding errors."""


def ratio_sum(
    current: FloatArray, alternative: FloatArray, weights: Sequence[float] | None = None
) -> float:
    """sum_i w_i u_i(theta') / u_i(theta); at most W for all theta' in P if theta is the optimum."""
    w = weights_of(current, weights)
    return float((w * alternative / require_positive(current)).sum())


def sum_certificate(
    current: FloatArray,
    alternative: FloatArray,
    weights: Sequence[float] | None = None,
    tolerance: float = EXACT,
) -> Answer:
    """Whether sum_i w_i u_i(theta') / u_i(theta) <= W for this theta' (after Theorem 2).

    If it holds for every theta' in P, theta is core-stable. If it fails for one, theta is not the
    maximum of the Nash welfare, but may still be core-stable: `stable` is then None.
    """
    W = float(weights_of(current, weights).sum())
    margin = 1 - ratio_sum(current, alternative, weights) / W
    return Answer(True if margin >= -tolerance else None, margin, "sum of ratios", tolerance)


def blocking(
    current: FloatArray,
    alternative: FloatArray,
    weights: Sequence[float] | None = None,
    tolerance: float = EXACT,
    *,
    proper: bool = False,
) -> Answer:
    """Whether some coalition blocks with this theta': exact, O(n log n).

    With agents sorted by falling ratio r_i, S blocks if min r_i >= W / W_S. Among coalitions with
    the same smallest ratio, the one with all agents of at least that ratio weighs most, so only
    these n are examined. `margin` is 1 - max_S (W_S / W) min_{i in S} r_i, and `blocked_by` is that
    S if it blocks. One of its agents must gain by more than `tolerance`. With `proper`, S excludes
    somebody.
    """
    w = weights_of(current, weights)
    ratios = alternative / require_positive(current)
    order = np.argsort(-ratios, kind="stable")
    share = np.cumsum(w[order]) / w.sum()
    least, most = ratios[order], np.full(len(order), ratios[order[0]])
    last = order
    if proper:
        # If S contains the agent that gains least, it weighs most without the lightest of the
        # others (among several, without the one that gains least).
        rest = w[order[-2::-1]]
        last = np.delete(order, len(rest) - 1 - int(np.argmin(rest)) if rest.size else 0)
        share[-1] = w[last].sum() / w.sum()
        most[-1] = ratios[last].max(initial=0.0)
    gains = share * least
    blocks = (gains >= 1 - ROUNDING) & (share * most > 1 + tolerance)
    tightest = int(np.argmax(np.where(blocks, gains, -np.inf) if blocks.any() else gains))
    members = order[: tightest + 1] if tightest < len(order) - 1 else last
    return Answer(
        stable=not blocks.any(),
        margin=1 - float(gains[tightest]),
        method="exact test of one alternative",
        tolerance=tolerance,
        blocked_by=tuple(sorted(members.tolist())) if blocks.any() else (),
    )


def least_margin_possible(
    current: FloatArray,
    offset: FloatArray | float,
    weights: Sequence[float] | None = None,
) -> float:
    """A lower bound on the margin of any coalition of some but not all agents, for every theta'.

    Losses are not negative, so no model gives agent i a utility above M_i = `offset`. If the bound
    is 0 or more, no such coalition could block, and a test that finds none says nothing. NaN for
    one agent.
    """
    if current.size < 2:
        return float("nan")
    return blocking(current, np.broadcast_to(offset, current.shape), weights, proper=True).margin


def pareto(current: FloatArray, alternative: FloatArray, tolerance: float = EXACT) -> Answer:
    """Whether theta' is a Pareto improvement: no agent loses and some agent gains (Definition 3).

    `margin` is the largest relative loss of an agent, negative if none loses.
    """
    ratios = alternative / require_positive(current)
    dominated = bool((ratios >= 1 - ROUNDING).all() and (ratios > 1 + tolerance).any())
    everybody = tuple(range(len(ratios))) if dominated else ()
    return Answer(not dominated, 1 - float(ratios.min()), "Pareto comparison", tolerance, everybody)


def proportionality(
    current: FloatArray,
    best: FloatArray,
    weights: Sequence[float] | None = None,
    tolerance: float = EXACT,
) -> Answer:
    """Whether u_i(theta) >= (w_i / W) max u_i for every agent (Definition 2).

    `best` are the agents' largest possible utilities, each with its own predictor. An agent that
    falls short blocks alone.
    """
    w = weights_of(current, weights)
    gains = w / w.sum() * best / require_positive(current)
    worst = int(np.argmax(gains))
    stable = bool(gains[worst] <= 1 + tolerance)
    return Answer(
        stable,
        1 - float(gains[worst]),
        "proportionality",
        tolerance,
        () if stable else (worst,),
    )


def against(
    current: FloatArray,
    alternatives: Mapping[str, FloatArray],
    weights: Sequence[float] | None = None,
    tolerance: float = EXACT,
) -> Answer:
    """The tightest of the exact tests with named alternatives.

    It is the only test for non-convex models, and says nothing about other predictors. Raises
    ValueError without alternatives.
    """
    if not alternatives:
        raise ValueError("alternatives: found none, accepted: at least one")
    answers = {
        name: blocking(current, utilities, weights, tolerance)
        for name, utilities in alternatives.items()
    }
    name = min(answers, key=lambda one: (bool(answers[one].stable), answers[one].margin))
    return replace(
        answers[name],
        method=f"exact tests of {', '.join(alternatives)}",
        alternative=name,
    )
