"""Priors of machines' speeds.

The logarithm of the seconds per unit of each term is the sum of

    the expectation from the base profile
    + the device's own factor, the same for all of its terms
    + the family's factor of the term, the same for all devices of a class
    + the remainder, of one term of one device,

all of them normal. The device's factor allows for a machine or framework whose speed is far from
the profile's peak; half of its variance is common to a family. Expected rates are the base
profile's own; for terms without one they are shares of its sustained peak. The spreads below are
factors: a 90 % interval reaches from the expected figure divided by the factor to the figure times
the factor. docs/decisions.md ("calibration") says where they come from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from simfl.calibration.terms import Prior, Term, sigma
from simfl.common.model_work import FORWARD_KINDS, STEP_KINDS, ModelWork
from simfl.system.processor import TRAINING_FLOPS_PER_FORWARD


@dataclass(frozen=True)
class TermPrior:
    """A term of a step's seconds, and its prior.

    `expected` is used if the base lacks the figure: a share of its peak (operations per second) or,
    for a term in seconds, the seconds themselves. `family` is the spread shared by the devices of a
    family, as a factor; `rest` is that of one device.
    """

    term: Term
    expected: float
    family: float
    rest: float = 1.6


def _rate(kind: str, expected: float, family: float) -> TermPrior:
    return TermPrior(Term(kind, f"processor.rates.{kind}", "FLOP/s"), expected, family)


TERM_PRIORS = (
    _rate("convolution", 0.4, 3.0),
    _rate("depthwise", 0.015, 8.0),
    _rate("dense", 0.6, 3.0),
    _rate("recurrent", 0.25, 5.0),
    _rate("embedding", 0.003, 8.0),
    _rate("update", 0.02, 3.0),
    _rate("kernels", 0.0007, 3.0),
    TermPrior(Term("traffic", "processor.bandwidth_bytes_per_s", "B/s"), 1.0 / 40.0, 3.0),
    TermPrior(Term("step", "processor.seconds_per_step", "s", per_unit=True), 5e-3, 8.0, 3.0),
    TermPrior(Term("place", "processor.seconds_per_place", "s", per_unit=True), 2e-4, 8.0, 3.0),
)
"""The terms of a training step's seconds, in the order of the arrays' last axis."""
TERMS = tuple(one.term for one in TERM_PRIORS)
TRAINING = TermPrior(
    Term("training", "processor.seconds_per_training", "s", per_unit=True), 0.3, 8.0, 3.0
)
"""The fixed time of a whole local training, the last term if rows hold whole trainings."""

DEVICE_FACTOR = 4.0
"""Spread of a device's own factor if its base only has a peak."""
DEVICE_FACTOR_OF_RATES = 2.0
"""The same if its base has rates by kind, from measurements of a similar machine."""
FAMILY_OF_RATES = 1.5
"""Spread of a term whose figure the base has, replacing the term's own."""
COMMON_TO_FAMILY = 0.5
"""The share of the variance of the device's factor that is common to all devices of a class."""
SCATTER, SCATTER_SPREAD = 0.12, 0.4
"""Relative error of the sum for a model, and its spread: other models of one benchmark were
predicted at 0.81 to 1.00 of their times, models of several families at 0.7 to 1.3.
"""


@dataclass(frozen=True)
class Base:
    """What a profile says about a machine's speed: the starting point of its twin.

    `figures` are those that it has, by the keys of its terms; `family` is its device class.
    """

    family: str
    peak_flops: float
    figures: Mapping[str, float] = field(default_factory=dict)

    def expected(self, prior: TermPrior) -> float:
        """The expected figure of a term."""
        key = prior.term.key
        if key in self.figures:
            return self.figures[key]
        return prior.expected * (1.0 if prior.term.per_unit else self.peak_flops)

    def device_sigma(self) -> float:
        """Standard deviation of the logarithm of the device's own factor."""
        is_rated = bool(set(self.figures) - {TRAINING.term.key})
        return sigma(DEVICE_FACTOR_OF_RATES if is_rated else DEVICE_FACTOR)

    def family_sigma(self, prior: TermPrior) -> float:
        """Standard deviation of the logarithm of a term's factor that the family shares."""
        return sigma(FAMILY_OF_RATES if prior.term.key in self.figures else prior.family)


def amounts(work: ModelWork, examples: float, steps: float) -> list[float]:
    """The amount of each term: `MeasuredProcessor.training_cycles` written as a sum."""
    each = TRAINING_FLOPS_PER_FORWARD * examples
    return [
        *(each * getattr(work, kind) for kind in FORWARD_KINDS),
        *(steps * getattr(work, kind) for kind in STEP_KINDS),
        each * work.traffic_bytes,
        steps,
        steps * work.recurrent_places,
    ]


def prior_of(bases: Sequence[Base], priors: Sequence[TermPrior] = TERM_PRIORS) -> Prior:
    """The prior of devices with these bases."""
    mean = np.array([[one.term.log(base.expected(one)) for one in priors] for base in bases])
    devices, terms = mean.shape
    covariance = np.zeros((devices, terms, devices, terms))
    for one, base in enumerate(bases):
        for other, its in enumerate(bases):
            if base.family != its.family:
                continue
            common = 1.0 if one == other else COMMON_TO_FAMILY
            covariance[one, :, other, :] = common * base.device_sigma() * its.device_sigma()
            for place, prior in enumerate(priors):
                shared = base.family_sigma(prior) * its.family_sigma(prior)
                own = sigma(prior.rest) ** 2 if one == other else 0.0
                covariance[one, place, other, place] += shared + own
    total = devices * terms
    each = [one.term for one in priors]
    return Prior(each, mean, covariance.reshape(total, total), SCATTER, SCATTER_SPREAD)
