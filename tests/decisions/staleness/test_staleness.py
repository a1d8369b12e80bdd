"""Mixing shares of late models."""

import numpy as np
import pytest

from simfl.decisions.staleness.constant import Constant
from simfl.decisions.staleness.exponential import Exponential
from simfl.decisions.staleness.hinge import Hinge
from simfl.decisions.staleness.polynomial import Polynomial

RULES = [Constant(), Exponential(), Polynomial(), Hinge()]


@pytest.mark.parametrize(
    ("rule", "shares"),
    [
        (Exponential(initial=0.2, base=0.9), {0: 0.2, 1: 0.18, 3: 0.1458}),
        (Polynomial(initial=0.6, exponent=0.5), {0: 0.6, 3: 0.3, 8: 0.2}),
        (Hinge(initial=0.6, limit=6, slope=10.0), {0: 0.6, 6: 0.6, 7: 0.6 / 11, 8: 0.6 / 21}),
        (Constant(value=0.4), {0: 0.4, 9: 0.4}),
    ],
)
def test_known_values(rule, shares):
    """The cards' anchors, one at a time and as an array."""
    for staleness, share in shares.items():
        assert rule.share(staleness) == pytest.approx(share)
    np.testing.assert_allclose(rule.share(np.array(list(shares))), list(shares.values()))


@pytest.mark.parametrize("rule", RULES)
def test_a_later_model_never_counts_more(rule):
    """Shares lie in (0, 1] and do not rise."""
    shares = np.asarray(rule.share(np.arange(100)))

    assert ((shares > 0) & (shares <= 1)).all()
    assert (np.diff(shares) <= 0).all()


@pytest.mark.parametrize(
    ("rule"), [Polynomial(exponent=0.0), Hinge(slope=0.0), Exponential(base=1)]
)
def test_without_a_penalty_staleness_is_ignored(rule):
    """The limit of every rule is a constant."""
    assert len(set(np.asarray(rule.share(np.arange(20))).tolist())) == 1
