"""Watts of devices: what they draw while idle, and what training adds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simfl.calibration.terms import Prior, Term, sigma

POWER_TERMS = (
    Term("idle", "power_idle_w", "W", per_unit=True),
    # A profile holds the sum of both: watts of the whole device.
    Term("training", "processor.power_active_w", "W", per_unit=True),
)
FACTOR = 3.0
"""Spread of either around the base profile's."""
SCATTER, SCATTER_SPREAD = 0.05, 0.5
"""Of the relative error of a wattmeter's reading."""


def power_prior(bases: Sequence[tuple[float, float]]) -> Prior:
    """What is believed of devices whose bases draw (idle, training) watts, the second on top."""
    return Prior(
        POWER_TERMS,
        np.log(np.array(bases)),
        sigma(FACTOR) ** 2 * np.eye(2 * len(bases)),
        SCATTER,
        SCATTER_SPREAD,
    )
