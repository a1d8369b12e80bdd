"""Theorem 5's bound against the gap of a real run on L2-regularised logistic regression."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from fedcure_theory import LOGISTIC, RATE, Trajectory, logistic_run

from simfl.measures.convergence_bound import Constants, convergence_bound


@pytest.fixture(scope="module")
def run() -> Trajectory:
    """60 versions of FedCure with full gradient steps."""
    return logistic_run(LOGISTIC, seed=4)


def test_the_task_is_what_the_clients_minimise(run):
    """At the optimum the mean gradient vanishes; gradients are those of the loss."""
    best = run.task.optimum()
    weights = run.points[5]
    sizes = run.task._sizes
    slope = np.average(run.task.gradients(weights), axis=0, weights=sizes).reshape(weights.shape)

    assert np.average(run.task.gradients(best), axis=0, weights=sizes) == pytest.approx(0, abs=1e-7)
    nudge = np.zeros_like(weights)
    nudge[1, 2] = 1e-6
    difference = run.task.loss(weights + nudge) - run.task.loss(weights - nudge)
    assert slope[1, 2] == pytest.approx(difference / 2e-6, abs=1e-8)


def test_the_constants_hold_along_the_run(run):
    """Smoothness and strong convexity between any two points that were visited."""
    one = run.task.constants(run.points)
    points = run.points[:: max(1, len(run.points) // 30)]

    assert one.smoothness * RATE < 1
    for left, right in pairwise(points):
        apart = (left - right).ravel()
        slopes = run.task.gradients(left) - run.task.gradients(right)
        length = np.linalg.norm(apart)
        assert (np.linalg.norm(slopes, axis=1) <= one.smoothness * length + 1e-12).all()
        assert (slopes @ apart >= one.convexity * length**2 - 1e-12).all()


def test_the_bound_holds_at_every_version(run):
    """Both bounds lie above the observed gap; the windowed one comes down with it."""
    bound = run.bound(run.task.constants(run.points))

    assert run.gap.size == bound.paper.size == bound.windowed.size == 61
    assert (run.gap > 0).all()
    assert (bound.paper >= run.gap).all()
    assert (bound.windowed >= run.gap).all()
    assert run.gap[-1] < 0.2 * run.gap[0]
    assert bound.windowed[-1] < bound.windowed[0]
    assert bound.paper[-1] > bound.paper[0]  # departure 2: it never shows any progress


def test_a_run_that_makes_no_progress_breaks_the_bound(run):
    """The gap of version 0 for ever lies above the windowed bound."""
    bound = run.bound(run.task.constants(run.points))

    stuck = np.full_like(run.gap, run.gap[0])
    assert (stuck[1:] > bound.windowed[1:]).all()
    assert (stuck <= bound.paper).all()  # which the paper's bound cannot tell


def test_a_constant_share_gives_eq_18():
    """The closed form, corrected: theta gap + (1 - theta)(O1 e3 + O2 e1 + O3 e2) / O4."""
    sigma, mu, rho, e1, e2, e3 = 2.0, 0.3, 1.5, 0.4, 0.2, 2.25
    eta, steps, rounds, share, versions = 0.1, 5, 12, 0.2, 30
    one = Constants(sigma, mu, rho, e1, e2, e3)
    fresh = np.zeros(versions, dtype=int)

    found = convergence_bound(one, 1.7, np.full(versions, share), fresh, eta, steps, rounds)

    kept = (1 - eta * mu) ** (steps * rounds)
    theta = (1 - share + share * kept) ** versions
    o1, o3, o4 = 1 / (2 * mu), steps * rounds * eta / 2, 1 - kept
    o2 = rho * rounds * ((eta * sigma + 1) ** steps - sigma * eta * steps - 1) / sigma
    by_hand = theta * 1.7 + (1 - theta) * (o1 * e3 + o2 * e1 + o3 * e2) / o4
    assert found.paper[-1] == pytest.approx(by_hand)
    assert found.windowed[-1] == pytest.approx(theta * 1.7 + (1 - theta) * (o2 * e1 + o3 * e2) / o4)


def test_stale_models_are_bounded_from_where_they_started():
    """One version old: the bound of two versions ago is what its training brings down."""
    one = Constants(1.0, 0.5, 1.0, 0.0, 0.0, 1.0)

    found = convergence_bound(one, 1.0, np.array([0.2, 0.2]), np.array([0, 1]), 0.5, 1, 1)

    assert found.windowed.tolist() == pytest.approx([1.0, 0.95, 0.8 * 0.95 + 0.2 * 0.75 * 1.0])


def test_without_strong_convexity_there_is_no_bound():
    """The theorem's e3 / (2 mu) has no value, and nothing is contracted."""
    with pytest.raises(ValueError, match=r"convexity: found 0\.0, accepted: > 0"):
        convergence_bound(Constants(2.0, 0.0, 1, 1, 1, 1), 1.0, np.ones(1), np.zeros(1), 0.1, 1, 1)


def test_too_long_steps_are_refused():
    """The theorem needs a learning rate below 1 / smoothness."""
    with pytest.raises(ValueError, match=r"learning_rate: found 0\.5"):
        convergence_bound(Constants(2.0, 1, 1, 1, 1, 1), 1.0, np.ones(1), np.zeros(1), 0.5, 1, 1)
