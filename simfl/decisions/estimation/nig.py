"""Bayesian latency estimates: Normal-Inverse-Gamma, one entity at a time (FedCure).

Source: FedCure (arXiv 2511.10227), "Optimal Design of Scheduling Rule", estimates the latencies of
coalitions by Bayes' rule and leaves prior and likelihood open.

Symbols
    x                latency observed                                    s
    mu, sigma^2      its mean and variance, unknown                      s, s^2
    mu0              prior mean: what is expected before the first x     s
    k0, a0, b0       mu | sigma^2 ~ N(mu0, sigma^2 / k0), sigma^2 ~ IG(a0, b0), b0 = (spread mu0)^2
    kn, an, bn, mun  the posterior's, after n observations

    kn = k0 + n,  an = a0 + n / 2,  mun = (k0 mu0 + sum x) / kn
    bn = b0 + SS / 2 + k0 n (mean x - mu0)^2 / (2 kn),  SS = sum (x - mean x)^2

The estimate is mun. The next latency is Student-t with 2 an degrees of freedom around mun, its
squared scale bn (kn + 1) / (an kn).

Departures
1. mu0 is fixed at the first observation. Before that it is the server's expectation: for edge
   servers the mean of all latencies so far, otherwise the latency of the registered hardware.
2. Raw latencies, not their logarithm, whose predictive mean would be infinite.
3. `forgetting` below 1 lets old observations fade (n and SS shrink by it at every new one).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.decisions.base import Estimator


@dataclass(frozen=True)
class NormalInverseGamma(Estimator):
    """The posterior mean under a Normal-Inverse-Gamma prior."""

    name: ClassVar[str] = "nig"

    prior_weight: Annotated[float, "> 0", "weight of the prior mean, in observations (k0)"] = 1.0
    prior_shape: Annotated[float, "> 1", "shape of the prior of the variance (a0)"] = 2.0
    prior_spread: Annotated[float, "> 0", "b0 is the square of this times the prior mean"] = 0.25
    forgetting: Annotated[
        float, "> 0", "<= 1", "factor on the weight of old observations at each new one"
    ] = 1.0

    def initial(self) -> tuple[float, ...]:
        """n, mean x, SS, mu0."""
        return (0.0, 0.0, 0.0, np.nan)

    def observe(
        self, memory: FloatArray, duration_s: FloatArray, prior_s: FloatArray
    ) -> FloatArray:
        """Welford's recursion; a first observation without any expectation is its own prior."""
        n, mean, squares, mu0 = memory.T
        expected = np.where(np.isnan(prior_s), duration_s, prior_s)
        mu0 = np.where(np.isnan(mu0), expected, mu0)
        kept = self.forgetting * n
        off = duration_s - mean
        squares = self.forgetting * squares + off**2 * kept / (kept + 1.0)
        return np.stack([kept + 1.0, mean + off / (kept + 1.0), squares, mu0], axis=1)

    def estimate(self, memory: FloatArray, prior_s: FloatArray) -> FloatArray:
        """mun."""
        n, mean, _, mu0 = self._columns(memory, prior_s)
        estimate: FloatArray = (self.prior_weight * mu0 + n * mean) / (self.prior_weight + n)
        return estimate

    def posterior(self, memory: FloatArray, prior_s: FloatArray) -> dict[str, FloatArray]:
        """kn, an, bn; with the estimate they are the whole posterior."""
        n, mean, squares, mu0 = self._columns(memory, prior_s)
        kn = self.prior_weight + n
        bn = (self.prior_spread * mu0) ** 2 + squares / 2.0
        bn = bn + self.prior_weight * n * (mean - mu0) ** 2 / (2.0 * kn)
        return {"kn": kn, "an": self.prior_shape + n / 2.0, "bn": bn}

    def _columns(self, memory: FloatArray, prior_s: FloatArray) -> tuple[FloatArray, ...]:
        n, mean, squares, mu0 = memory.T
        return n, mean, squares, np.where(np.isnan(mu0), prior_s, mu0)
