"""Priors of machines' speeds.

The logarithms of the seconds that a unit of each term takes are

    what is expected of the base profile
    + the device's own factor, the same for all of its terms
    + the family's factor of the term, the same for all devices of a class
    + the rest, of one term of one device,

all of them normal. The device's factor says that the profile's peak, or the framework, may be far
from what holds here; half of its variance is common to a family. Expected rates are those that the
base profile itself has; of terms that it has none for, shares of its sustained peak. Spreads are
stated below as factors: a 90 % interval reaches from the expected figure divided by it to the
figure times it. Where they come from stands in docs/decisions.md ("calibration").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from simfl.calibration.terms import Prior, Term, sigma
from simfl.common.model_work import FORWARD_KINDS, STEP_KINDS, ModelWork
from simfl.system.processor import TRAINING_FLOPS_PER_FORWARD


@dataclass(frozen=True)
class Belief:
    """A term of a step's seconds, and what is believed of it.

    `expected` is the figure that a base without one stands for: a share of its peak (operations
    per second), or, of a term that is seconds itself, those. `family` is the factor of the spread
    that the devices of a family share, `rest` that of one device.
    """

    term: Term
    expected: float
    family: float
    rest: float = 1.6


def _rate(kind: str, expected: float, family: float) -> Belief:
    return Belief(Term(kind, f"processor.rates.{kind}", "FLOP/s"), expected, family)


BELIEFS = (
    _rate("convolution", 0.4, 3.0),
    _rate("depthwise", 0.015, 8.0),
    _rate("dense", 0.6, 3.0),
    _rate("recurrent", 0.25, 5.0),
    _rate("embedding", 0.003, 8.0),
    _rate("update", 0.02, 3.0),
    _rate("kernels", 0.0007, 3.0),
    Belief(Term("traffic", "processor.bandwidth_bytes_per_s", "B/s"), 1.0 / 40.0, 3.0),
    Belief(Term("step", "processor.seconds_per_step", "s", per_unit=True), 5e-3, 8.0, 3.0),
    Belief(Term("place", "processor.seconds_per_place", "s", per_unit=True), 2e-4, 8.0, 3.0),
)
"""The terms of a training step's seconds, in the order of the arrays' last axis."""
TERMS = tuple(one.term for one in BELIEFS)

DEVICE_FACTOR = 4.0
"""Spread of a device's own factor where its base gives a peak alone."""
DEVICE_FACTOR_OF_RATES = 2.0
"""And where its base has rates by kind, from measurements of a machine like it."""
FAMILY_OF_RATES = 1.5
"""Spread of a term whose figure the base has, in place of the term's own."""
COMMON_TO_FAMILY = 0.5
"""The share of the variance of the device's factor that all devices of a class have in common."""
SCATTER, SCATTER_SPREAD = 0.12, 0.4
"""Of the relative error of the sum for a model: other models of one benchmark were predicted at
0.81 to 1.00 of their times, models of several families at 0.7 to 1.3."""


@dataclass(frozen=True)
class Base:
    """What a profile says of a machine's speed: the starting point of its twin.

    `figures` are those that it has, by the keys of `TERMS`; `family` is its device class.
    """

    family: str
    peak_flops: float
    figures: Mapping[str, float] = field(default_factory=dict)

    def expected(self, belief: Belief) -> float:
        """The figure that is expected of a term."""
        key = belief.term.key
        if key in self.figures:
            return self.figures[key]
        return belief.expected * (1.0 if belief.term.per_unit else self.peak_flops)

    def device_sigma(self) -> float:
        """Of the device's own factor."""
        return sigma(DEVICE_FACTOR_OF_RATES if self.figures else DEVICE_FACTOR)

    def family_sigma(self, belief: Belief) -> float:
        """Of a term's spread that the family shares."""
        return sigma(FAMILY_OF_RATES if belief.term.key in self.figures else belief.family)


def amounts(work: ModelWork, examples: float, steps: float) -> list[float]:
    """How much there is of each term: `MeasuredProcessor.training_cycles`, read as a sum."""
    each = TRAINING_FLOPS_PER_FORWARD * examples
    return [
        *(each * getattr(work, kind) for kind in FORWARD_KINDS),
        *(steps * getattr(work, kind) for kind in STEP_KINDS),
        each * work.traffic_bytes,
        steps,
        steps * work.recurrent_places,
    ]


def prior_of(bases: Sequence[Base]) -> Prior:
    """What is believed of devices with these bases."""
    mean = np.array([[one.term.log(base.expected(one)) for one in BELIEFS] for base in bases])
    devices, terms = mean.shape
    covariance = np.zeros((devices, terms, devices, terms))
    for one, base in enumerate(bases):
        for other, its in enumerate(bases):
            if base.family != its.family:
                continue
            common = 1.0 if one == other else COMMON_TO_FAMILY
            covariance[one, :, other, :] = common * base.device_sigma() * its.device_sigma()
            for place, belief in enumerate(BELIEFS):
                shared = base.family_sigma(belief) * its.family_sigma(belief)
                own = sigma(belief.rest) ** 2 if one == other else 0.0
                covariance[one, place, other, place] += shared + own
    total = devices * terms
    return Prior(TERMS, mean, covariance.reshape(total, total), SCATTER, SCATTER_SPREAD)
