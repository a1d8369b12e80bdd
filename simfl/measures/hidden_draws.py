"""The epsilon of Gaussian releases over secretly drawn clients.

If one client is replaced by another, and is among those drawn with probability q, a release reveals
at most the divergence q d(log(1 + (e^x - 1) / q)) at every x >= 0, where d(x) is that of the
Gaussian release itself (Balle, Barthe, Gaboardi, NeurIPS 2018, Theorem 9). Below 0 the bound
follows from the other direction, because the two clients are interchangeable. Such bounds compose
like the privacy losses of one pair of distributions (Zhu, Dong, Wang, AISTATS 2022). They are
composed as discrete distributions that are upper bounds (Doroshenko et al., PoPETs 2022(4),
"Connect the Dots").
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from simfl.common.arrays import FloatArray

GRID = 1e-3
"""Spacing of the losses of the discrete distribution, in nats."""
MOST_PLACES = 20_000
"""Points of the grid on either side of 0; the spacing grows if more would be needed."""
DEVIATIONS = 10.0
"""Losses beyond this many standard deviations have a probability of 1e-23."""
LARGEST = 600.0
"""The largest loss in nats; exponentials of larger ones overflow, so these count as unbounded."""


def epsilon_of_hidden_draws(shift: float, share: float, releases: int, delta: float) -> float:
    """Epsilon of `releases` whose mean a drawn client moves by up to `shift` standard deviations.

    `share`: the share of all clients that is drawn. inf if none is found. Needs the package
    dp-accounting.
    """
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    largest = math.log1p(share * math.expm1(min(shift * (shift / 2 + DEVIATIONS), LARGEST)))
    grid = max(GRID, largest / MOST_PLACES)
    places = np.arange(-math.ceil(largest / grid), math.ceil(largest / grid) + 1)
    losses = (grid * places).astype(float)
    deltas = _divergences(losses, shift, share)
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(grid, places, deltas)
    composed = privacy_loss_distribution.PrivacyLossDistribution(pmf).self_compose(releases)
    return float(composed.get_epsilon_for_delta(delta))


def _divergences(losses: FloatArray, shift: float, share: float) -> FloatArray:
    """The maximum of P(event) - e^loss P'(event) for a single release, where P' has another client.

    One value for each loss.
    """
    size = np.abs(losses)
    own = np.log1p(np.expm1(size) / share)
    above = special.ndtr(shift / 2 - own / shift)
    below = np.exp(own + special.log_ndtr(-shift / 2 - own / shift))
    found = share * (above - below)
    either: FloatArray = np.where(losses >= 0, found, np.exp(losses) * found - np.expm1(losses))
    return either
