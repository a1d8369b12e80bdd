"""The exact tests of one alternative: the card's examples, brute force, and the paper's tables."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simfl.measures.core.blocking import (
    against,
    blocking,
    least_margin_possible,
    pareto,
    proportionality,
    ratio_sum,
    sum_certificate,
)

NOISY = {"theta_1": np.array([1.0, 1.0, 1000.0]), "theta_2": np.array([10.0, 10.0, 900.0])}
"""Losses of three agents, of which the third has noise for data (section 3.1 of the paper)."""


def noisy(offset: float) -> tuple[np.ndarray, np.ndarray]:
    """Utilities under theta_2 and theta_1 with M_1 = M_2 = offset, M_3 = 1001."""
    offsets = np.array([offset, offset, 1001.0])
    return offsets - NOISY["theta_2"], offsets - NOISY["theta_1"]


def brute_force(
    current: np.ndarray, alternative: np.ndarray, w: np.ndarray, *, proper: bool = False
) -> bool:
    """Definition 6, coalition by coalition (`proper`: except all agents together)."""
    for size in range(1, len(w) + (not proper)):
        for coalition in combinations(range(len(w)), size):
            members = list(coalition)
            gains = w[members].sum() / w.sum() * alternative[members] - current[members]
            if (gains >= 0).all() and (gains > 0).any():
                return True
    return False


@pytest.mark.parametrize(("offset", "blocks"), [(27.0, True), (28.0, False), (29.0, False)])
def test_good_agents_block_the_model_that_serves_the_noisy_one(offset, blocks):
    """(2/3)(M - 1) > M - 10 below M = 28, where both sides are 18; not with a common M = 1001."""
    answer = blocking(*noisy(offset))

    assert answer.stable is not blocks
    assert answer.blocked_by == ((0, 1) if blocks else ())
    assert answer.margin == pytest.approx(1 - 2 / 3 * (offset - 1) / (offset - 10), abs=1e-15)
    common = [1001.0 - NOISY[name] for name in ("theta_2", "theta_1")]
    assert blocking(*common).stable


def test_fedavg_and_egalitarian_fairness_prefer_what_the_core_rejects():
    """Mean loss 306.67 < 334 and largest loss 900 < 1000 both choose theta_2."""
    first, second = NOISY["theta_1"], NOISY["theta_2"]

    assert (first.mean(), second.mean()) == (334.0, pytest.approx(306.6667, abs=1e-4))
    assert second.max() < first.max()
    assert not blocking(*noisy(20.0)).stable


def test_scaling_one_agents_utility_changes_no_answer():
    """Ratios alone count: M and loss of an agent scaled together."""
    current, alternative = noisy(20.0)
    scale = np.array([7.0, 1.0, 0.01])

    plain, scaled = blocking(current, alternative), blocking(scale * current, scale * alternative)

    assert plain.blocked_by == scaled.blocked_by == (0, 1)
    assert plain.margin == pytest.approx(scaled.margin, rel=1e-12)


@pytest.mark.parametrize("n", [2, 4, 7])
def test_the_simplex_is_tight(n):
    """u_i = c_i: at c = 1/n nobody blocks and every sum of ratios is n; elsewhere argmin blocks."""
    even, skewed = np.full(n, 1 / n), np.arange(1.0, n + 1) / np.arange(1.0, n + 1).sum()
    corners = {f"corner {i}": np.eye(n)[i] for i in range(n)}

    answer = against(skewed, corners)

    assert all(ratio_sum(even, c) == pytest.approx(n) for c in [*corners.values(), skewed])
    assert all(sum_certificate(even, c).stable for c in corners.values())
    assert against(even, corners).stable
    assert not answer.stable
    assert (answer.blocked_by, answer.alternative) == ((0,), "corner 0")
    assert not proportionality(skewed, np.ones(n)).stable
    assert proportionality(even, np.ones(n)).margin == pytest.approx(0.0)


agents = st.integers(1, 6).flatmap(
    lambda n: st.tuples(
        *[st.lists(st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.0]), min_size=n, max_size=n)] * 3
    )
)


def test_a_heavy_agent_that_gains_least_blocks_with_another():
    """Ratios 1.3, 1.4, 1.35, weights 3, 1, 1: {0, 1} blocks (0.8 * 1.3 > 1), no prefix does."""
    answer = blocking(np.ones(3), np.array([1.3, 1.4, 1.35]), [3.0, 1.0, 1.0], proper=True)

    assert answer.blocked_by == (0, 1)
    assert answer.margin == pytest.approx(1 - 0.8 * 1.3)


@pytest.mark.parametrize("proper", [False, True])
@given(agents)
def test_the_test_of_prefixes_is_exact(proper, columns):
    """Whatever utilities and weights, ties included, it agrees with all coalitions."""
    current, alternative, w = map(np.array, columns)

    answer = blocking(current, alternative, w.tolist(), proper=proper)

    assert answer.stable is not brute_force(current, alternative, w, proper=proper)
    assert not proper or len(answer.blocked_by) < len(w)
    if not answer.stable:
        members = list(answer.blocked_by)
        gains = w[members].sum() / w.sum() * alternative[members] / current[members]
        assert gains.min() >= 1 - 1e-12 and gains.max() > 1
        assert answer.margin == pytest.approx(1 - gains.min())


@given(agents, st.integers(0, 5), st.sampled_from([1 / 8, 1 / 2, 4.0, 64.0]))
def test_the_scale_of_an_agents_utility_is_immaterial(columns, agent, scale):
    """Multiplied under every predictor alike, it changes neither coalition nor margin."""
    current, alternative, w = map(np.array, columns)
    factor = np.ones(len(w))
    factor[agent % len(w)] = scale

    plain = blocking(current, alternative, w.tolist())
    scaled = blocking(factor * current, factor * alternative, w.tolist())

    assert (scaled.blocked_by, scaled.margin) == (plain.blocked_by, plain.margin)


def test_pareto_needs_a_gain_and_no_loss():
    """Equal utilities dominate nothing; one gain without a loss does; a loss anywhere does not."""
    current = np.array([1.0, 2.0])

    assert pareto(current, current).stable
    assert not pareto(current, np.array([1.0, 2.5])).stable
    assert pareto(current, np.array([0.9, 9.0])).stable


def test_a_sum_above_the_weights_decides_nothing():
    """Then theta is not the optimum of the Nash welfare, but a coalition is still to be found."""
    current, alternative = np.array([1.0, 1.0, 1.0]), np.array([2.0, 1.0, 0.5])

    assert sum_certificate(current, alternative).stable is None
    assert sum_certificate(current, alternative, [1.0, 1.0, 4.0]).stable


@pytest.mark.parametrize(
    ("fedavg", "corefed", "printed"),
    [
        ([2.59, 0.77, 1.46], [2.62, 0.90, 1.53], 2.798),
        ([0.34, 0.29, 0.92], [0.36, 0.41, 0.91], 2.663),
        ([0.63, 1.40, 0.51], [0.73, 1.35, 0.71], 2.618),
        ([3.28, 3.30, 1.42], [3.26, 3.27, 1.95], 2.744),
        (
            [2.11, 2.30, 3.04, 3.28, 1.15, 2.70, 2.00, 2.72, 2.76, 3.14],
            [2.26, 2.50, 3.12, 3.32, 1.42, 2.50, 1.99, 2.80, 2.65, 2.99],
            9.774,
        ),
        ([0.25, 3.25, 3.46], [1.63, 3.17, 3.32], 2.22),  # printed as 2.25
    ],
)
def test_the_papers_tables(fedavg, corefed, printed):
    """The last column of Tables 1 to 4 from their own entries; Table 2's does not check (A9)."""
    found = ratio_sum(np.array(corefed), np.array(fedavg))

    assert found == pytest.approx(printed, abs=5e-3)
    assert sum_certificate(np.array(corefed), np.array(fedavg)).stable


def test_utilities_that_are_not_positive_are_refused():
    """The core is not defined there; the agent and its utility are named."""
    with pytest.raises(ValueError, match=r"agent 1 has the utility -0\.5"):
        blocking(np.array([1.0, -0.5]), np.array([1.0, 1.0]))
    with pytest.raises(ValueError, match="one positive number per agent"):
        blocking(np.array([1.0, 0.5]), np.array([1.0, 1.0]), [1.0])


@pytest.mark.parametrize("seed", range(20))
def test_the_least_margin_possible_is_by_the_largest_gain_of_all_coalitions_but_the_whole(
    seed: int,
) -> None:
    """With any weights and an M of each agent's own, against all of them one by one."""
    rng = np.random.default_rng(seed)
    own, weights = rng.uniform(0.5, 2.0, 4), rng.choice([1.0, 2.0, 9.0], 4)
    offsets = rng.uniform(2.0, 3.0, 4)
    coalitions = [list(one) for size in (1, 2, 3) for one in combinations(range(4), size)]
    gains = [weights[one].sum() / weights.sum() * (offsets / own)[one].min() for one in coalitions]

    assert least_margin_possible(own, offsets, weights.tolist()) == pytest.approx(1 - max(gains))


def test_one_agent_has_no_coalition_of_a_part() -> None:
    """It blocks alone, or nobody does."""
    assert np.isnan(least_margin_possible(np.array([2.0]), 3.0))
