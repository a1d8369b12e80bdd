"""Estimators of durations, against their closed forms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simfl.decisions.estimation.ewma import Ewma
from simfl.decisions.estimation.last import Last
from simfl.decisions.estimation.mean import Mean
from simfl.decisions.estimation.nig import NormalInverseGamma
from simfl.decisions.latencies import Latencies

ESTIMATORS = [NormalInverseGamma(), Mean(), Last(), Ewma()]
ONE = np.array([0])


def after(estimator, samples, prior_s=10.0):
    """One entity's latencies after some samples."""
    latencies = Latencies(estimator, 1)
    for sample in samples:
        latencies.observe(ONE, sample, prior_s)
    return latencies


def test_nig_by_hand():
    """The card's anchor: mu0 10, k0 1, samples 12 and 14 give 12; no sample gives 10."""
    assert after(NormalInverseGamma(), [12.0, 14.0]).estimate_s(ONE, 99.0) == pytest.approx(12.0)
    assert after(NormalInverseGamma(), []).estimate_s(ONE, 10.0) == pytest.approx(10.0)


@given(st.lists(st.floats(0.1, 100.0), min_size=1, max_size=20), st.floats(0.1, 100.0))
def test_nig_posterior_is_the_closed_form(samples, prior_s):
    """kn, an, bn as the textbook has them for all samples at once."""
    x, n = np.array(samples), len(samples)

    posterior = after(NormalInverseGamma(), samples, prior_s).posterior(ONE, np.nan)

    squares = ((x - x.mean()) ** 2).sum()
    bn = (0.25 * prior_s) ** 2 + squares / 2 + n * (x.mean() - prior_s) ** 2 / (2 * (1 + n))
    assert posterior["kn"] == pytest.approx(1 + n)
    assert posterior["an"] == pytest.approx(2 + n / 2)
    assert posterior["bn"] == pytest.approx(bn, rel=1e-9)


def test_nig_predictive_interval_covers():
    """About 90 % of normal latencies fall into the predictive 90 % interval."""
    from scipy import stats

    rng = np.random.default_rng(0)
    latencies, inside, asked = Latencies(NormalInverseGamma(), 200), 0, 0
    entities = np.arange(200)
    centre, spread = rng.uniform(5, 20, 200), rng.uniform(0.5, 2, 200)
    for number in range(60):
        x = rng.normal(centre, spread)
        if number >= 20:
            kn, an, bn = latencies.posterior(entities, 10.0).values()
            scale = np.sqrt(bn * (kn + 1) / (an * kn))
            half = stats.t.ppf(0.95, 2 * an) * scale
            inside += int((np.abs(x - latencies.estimate_s(entities, 10.0)) <= half).sum())
            asked += 200
        latencies.observe(entities, x, 10.0)

    assert inside / asked == pytest.approx(0.9, abs=0.05)


def test_forgetting_follows_a_change():
    """After latencies have doubled, a forgetting estimator is nearer to the new ones."""
    samples = [10.0] * 50 + [20.0] * 15

    plain = after(NormalInverseGamma(), samples).estimate_s(ONE, 10.0)
    forgetting = after(NormalInverseGamma(forgetting=0.8), samples).estimate_s(ONE, 10.0)

    assert plain < 13 < 18 < forgetting < 20


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [(Mean(), 4.0), (Last(), 6.0), (Ewma(weight=0.5), 0.25 * 2 + 0.25 * 4 + 0.5 * 6)],
)
def test_simple_estimators_by_hand(estimator, expected):
    """Samples 2, 4, 6, whatever was expected before."""
    assert after(estimator, [2.0, 4.0, 6.0]).estimate_s(ONE, 99.0) == pytest.approx(expected)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_an_entity_never_observed_is_what_was_expected(estimator):
    """Others' observations do not change it; without an expectation it stays unknown."""
    latencies = Latencies(estimator, 3)
    latencies.observe(np.array([0, 2]), np.array([3.0, 5.0]), np.array([3.0, 5.0]))

    assert latencies.estimate_s(np.arange(3), 7.0).tolist() == pytest.approx([3.0, 7.0, 5.0])
    assert np.isnan(latencies.estimate_s(np.array([1]), np.nan)).all()
    assert latencies.mean_s == 4.0


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_first_observation_needs_no_expectation(estimator):
    """Where nothing was expected the first duration is the estimate."""
    assert after(estimator, [5.0], np.nan).estimate_s(ONE, np.nan) == pytest.approx(5.0)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_constant_is_learned_exactly(estimator):
    """Latencies that do not vary are estimated without error, if expected rightly."""
    assert after(estimator, [10.0] * 5).estimate_s(ONE, 10.0) == pytest.approx(10.0)
