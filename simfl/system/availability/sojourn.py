"""Distributions of durations (how long a client stays in a state), given by their mean.

The residual of a distribution is the time from a random moment to the end of the sojourn in
progress: density (1 - F(x)) / mean (Cox, Renewal Theory, 1962, Section 5.2). A process whose first
sojourn is drawn from it is stationary from the beginning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import FloatArray
from simfl.common.limits import SHORTEST_S
from simfl.streams import Streams


@dataclass(frozen=True)
class Sojourn:
    """A duration: exponential, Weibull with shape k, or lognormal with sigma `shape`.

    A Weibull shape below 1 has a heavy tail: many short sojourns, and most of the time in few long
    ones. Shape 1 is the exponential.
    """

    REPLACED_BY: ClassVar[Mapping[str, tuple[str, ...]]] = {"shape": ("law",)}

    mean_s: Annotated[float, SHORTEST_S, "mean duration, seconds"]
    law: Annotated[
        Literal["exponential", "weibull", "lognormal"], "distribution of the durations"
    ] = "exponential"
    shape: Annotated[
        float, ">= 0.05", "<= 10", "k of the Weibull distribution, sigma of the lognormal"
    ] = 1.0

    def __post_init__(self) -> None:
        if self.law == "exponential" and self.shape != 1.0:
            raise ValueError(
                f"shape: found {self.shape:g}, accepted: 1, because the exponential distribution"
                " has no shape"
            )

    def durations(
        self, streams: Streams, component: str, clients: ArrayLike, counter: ArrayLike
    ) -> FloatArray:
        """Durations divided by their mean, addressed by client and counter."""
        if self.law == "lognormal":
            return streams.lognormal(self.shape, component, clients, counter)
        draws = streams.exponential(component, clients, counter)
        return self._weibull(draws)

    def residuals(self, streams: Streams, component: str, clients: ArrayLike) -> FloatArray:
        """Residual durations divided by the distribution's mean.

        For the Weibull distribution, (x / scale)^k of the residual is a gamma variable with shape 1
        / k. In general, the residual is a uniform share of a sojourn drawn with probability
        proportional to its length; for a lognormal, such sojourns are lognormal with a mean
        exp(sigma^2) times as large.
        """
        if self.law == "lognormal":
            longer = streams.lognormal(self.shape, component, clients) * math.exp(self.shape**2)
            return streams.uniform(f"{component}.share", clients) * longer
        return self._weibull(streams.gamma(1.0 / self.shape, component, clients))

    def _weibull(self, draws: FloatArray) -> FloatArray:
        scale = 1.0 / math.gamma(1.0 + 1.0 / self.shape)
        powers: FloatArray = scale * np.power(draws, 1.0 / self.shape)
        return powers
