"""The pseudo-core's radius: the card's values, monotonicity, and smoothness that is known."""

from __future__ import annotations

import numpy as np
import pytest

from simfl.measures.core.agents import Agents
from simfl.measures.core.bootstrap import Bootstrap
from simfl.measures.core.radius import pseudo_core, pseudo_core_radius
from tests.measures.core.tasks import LeastSquares, points

UTILITIES = np.array([1.0, 2.0, 4.0])


@pytest.mark.parametrize(("gradient", "radius"), [(0.1, 0.89768943), (0.0, 0.92582010)])
def test_the_radius_by_hand(gradient, radius):
    """beta 2, k 1.5, n 3, u (1, 2, 4): Eq. 4."""
    assert pseudo_core_radius(UTILITIES, gradient, 2.0, 1.5) == pytest.approx(radius, abs=1e-8)


def test_the_radius_is_the_root():
    """(beta / 2) S1 d^2 + epsilon d = (k - 1) W, weighted."""
    w, gradient, smoothness, k = np.array([1.0, 2.0, 0.5]), 0.7, 3.0, 1.2

    d = pseudo_core_radius(UTILITIES, gradient, smoothness, k, w.tolist())

    pull = (w / UTILITIES).sum()
    left = smoothness / 2 * pull * d**2 + gradient * d
    assert left == pytest.approx((k - 1) * w.sum(), rel=1e-12)


def test_the_radius_shrinks_with_slope_and_curvature_and_grows_with_k():
    """And vanishes as k goes to 1; flat utilities have no limit."""

    def radius(gradient: float = 0.1, smoothness: float = 2.0, k: float = 1.5) -> float:
        return pseudo_core_radius(UTILITIES, gradient, smoothness, k)

    assert radius(gradient=0.2) < radius() < radius(k=2.0)
    assert radius(smoothness=3.0) < radius()
    assert radius(k=1 + 1e-9) < 1e-7
    assert radius(gradient=0.0, smoothness=0.0) == float("inf")
    with pytest.raises(ValueError, match="accepted: a number > 1"):
        radius(k=1.0)


def test_least_squares_has_its_exact_smoothness():
    """beta is the largest eigenvalue of 2 X^T X / n over the agents, whatever the distance."""
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((20, 3)) * scale for scale in (1.0, 2.0)]
    model = LeastSquares(inputs, [x @ np.ones(3) for x in inputs])
    agents, theta = Agents.of(model, 50.0), np.full(3, 0.9)

    answer = pseudo_core(agents, theta, rng, k=1.5)

    largest = max(np.linalg.eigvalsh(2 * x.T @ x / 20).max() for x in inputs)
    utilities, slopes = agents.with_slopes(theta)
    gradient = np.linalg.norm((1 / utilities) @ slopes)
    assert answer.smoothness == pytest.approx(largest, rel=1e-9)
    assert answer.gradient_norm == pytest.approx(gradient, rel=1e-12)
    assert answer.margin == pytest.approx(pseudo_core_radius(utilities, gradient, largest, 1.5))
    assert answer.stable


def test_nobody_gains_k_times_the_share_within_the_radius():
    """Predictors inside the ball around FedAvg's: no coalition reaches k n / |S| (Definition 5)."""
    agents = Agents.of(points(0.0, 0.0, 1.0), 2.0)
    theta, k = np.array([1 / 3]), 1.1

    d = pseudo_core(agents, theta, np.random.default_rng(0), k).margin

    current = agents.utilities(theta)
    for other in np.linspace(1 / 3 - d, 1 / 3 + d, 51):
        ratios = np.sort(agents.utilities(np.array([other])) / current)[::-1]
        assert (ratios * np.arange(1, 4) / 3 < k + 1e-12).all()


def test_the_interval_draws_examples_and_holds_the_smoothness():
    """The radius lies within; the draws come from the generator given."""
    rng = np.random.default_rng(3)
    inputs = [rng.standard_normal((60, 2)) for _ in range(3)]
    targets = [x @ [1.0, i] + rng.standard_normal(60) for i, x in enumerate(inputs)]
    agents = Agents.of(LeastSquares(inputs, targets), 12.0)

    low, high = pseudo_core(
        agents, np.array([1.0, 0.2]), rng, 1.5, Bootstrap(np.random.default_rng(4), 200)
    ).interval

    d = pseudo_core(agents, np.array([1.0, 0.2]), np.random.default_rng(3), 1.5).margin
    assert low < d < high
