"""Fits links: bits per second in each direction, and the round-trip time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simfl.calibration.terms import Prior, Term, sigma
from simfl.common.arrays import FloatArray
from simfl.system.link import FixedRateLink

LINK_TERMS = (
    Term("up", "link.uplink_bps", "bit/s"),
    Term("down", "link.downlink_bps", "bit/s"),
    Term("round trip", "link.rtt_s", "s", per_unit=True),
)
FACTORS = (20.0, 20.0, 30.0)
"""Spreads around the base link's figures, as factors."""
COMMON = 0.5
"""The share of their variance that both rates have in common."""
SCATTER, SCATTER_SPREAD = 0.25, 0.5
"""Scatter of the relative error of a transfer's seconds (radio links are shared), and its
spread.
"""
LEAST_RTT_S = 1e-4
"""Assumed for a base without a round-trip time."""


def link_prior(links: int, base: FixedRateLink) -> Prior:
    """The prior for this many links with the base `base`."""
    expected = base.uplink_bps, base.downlink_bps, max(base.rtt_s, LEAST_RTT_S)
    mean = [term.log(figure) for term, figure in zip(LINK_TERMS, expected, strict=True)]
    own = np.diag([sigma(factor) ** 2 for factor in FACTORS])
    own[0, 1] = own[1, 0] = COMMON * sigma(FACTORS[0]) * sigma(FACTORS[1])
    covariance: FloatArray = np.kron(np.eye(links), own).astype(np.float64)
    return Prior(LINK_TERMS, np.tile(mean, (links, 1)), covariance, SCATTER, SCATTER_SPREAD)


def transfer_amounts(size_bytes: float, up: bool, duty_cycle: float) -> Sequence[float]:
    """The amount of each term in a message: `Link.transmit` written as a sum."""
    bits = 8.0 * size_bytes / duty_cycle
    return [bits if up else 0.0, 0.0 if up else bits, 0.5]
