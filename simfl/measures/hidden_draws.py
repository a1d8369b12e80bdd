"""The epsilon of Gaussian releases over secretly drawn clients.

A release of one client in another's place, who is among those drawn with the probability q, tells
no more than the divergence q d(log(1 + (e^x - 1) / q)) at every x >= 0, d(x) being that of the
Gaussian release itself (Balle, Barthe, Gaboardi, NeurIPS 2018, Theorem 9); below 0 as much in the
other direction, for who is whose other is all the same. Such bounds add up as the privacy losses of
one pair of distributions do (Zhu, Dong, Wang, AISTATS 2022). They are added by discrete ones that
lie above (Doroshenko et al., PoPETs 2022(4), "Connect the Dots").
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from simfl.common.arrays import FloatArray

GRID = 1e-3
"""Spacing of the losses of the discrete distribution, in nats."""
MOST_PLACES = 20_000
"""Of it, to either side of 0; the grid is coarser where that does not do."""
DEVIATIONS = 10.0
"""Losses so far out have a probability of 1e-23."""
LARGEST = 600.0
"""Of losses; beyond, their exponentials overflow, and what lies there counts as anything."""


def epsilon_of_hidden_draws(shift: float, share: float, releases: int, delta: float) -> float:
    """Epsilon of `releases` whose mean a drawn client moves by up to `shift` deviations.

    `share`: the share of all clients that is drawn. inf if it finds none. Needs the package
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
    """The most by which the probability of an event exceeds e^loss times that with another client.

    Of one release, for each loss.
    """
    size = np.abs(losses)
    own = np.log1p(np.expm1(size) / share)
    above = special.ndtr(shift / 2 - own / shift)
    below = np.exp(own + special.log_ndtr(-shift / 2 - own / shift))
    found = share * (above - below)
    either: FloatArray = np.where(losses >= 0, found, np.exp(losses) * found - np.expm1(losses))
    return either
