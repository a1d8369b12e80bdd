"""Posterior of figures given measured rows: a best fit, and joint draws.

A row's measured value is the sum of its terms times an error, whose logarithm follows Student's t
distribution with 4 degrees of freedom: an outlier (a browser was open) is disregarded rather than
followed. The scale of the error is unknown, too. The error mostly belongs to a subject (a model on
a device) and is the same in all of its rows; so n rows of one subject count as
n / (1 + `ALIKE` (n - 1)).

Draws use Metropolis steps along differences of other chains (ter Braak, Statistics and Computing
2006). All chains run side by side, starting from draws of a wide normal distribution around the
best fit. Each chain gives one draw. Twice as many steps change an interval's width by 3 % on
average (docs/decisions.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.optimize import minimize

from simfl.calibration.terms import ENDS, Prior, Rows
from simfl.common.arrays import FloatArray
from simfl.streams import Streams

DEGREES = 4.0
"""Degrees of freedom of Student's t distribution."""
UNLIKE = 1.5
"""Ratio of the error of an unmeasured subject to the scatter of measured ones. Of 1, 1.5 and 2 it
is the smallest with which 90 % intervals contained 80 % of thirty models on a server's core. Twelve
other models there, and 24 on two Raspberry Pis, were not used for this (docs/decisions.md).
"""
ALIKE = 0.8
"""Correlation of the errors of two rows of one subject."""
CHAINS = 400
WIDE = 3.0
"""Chains start from the normal approximation at the best fit, widened by this factor."""
STEPS_PER_DIMENSION = 40
LITTLE = 0.01
"""Size of the random part of a step, in widths of that approximation."""
_ERRORS = stats.t.ppf((np.arange(50) + 0.5) / 50, DEGREES)
"""Equally likely errors; random draws would make an interval's ends depend on chance."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """The best fit `logs` (things, terms), and `draws` around it (draws, things, terms).

    Both are logarithms of the terms' values. `errors` (draws, things) are draws of the logarithm of
    the sum's error for an unmeasured subject; `scatter` (draws) are draws of the scale of the error
    for measured ones.
    """

    prior: Prior
    logs: FloatArray
    draws: FloatArray
    scatter: FloatArray
    errors: FloatArray

    def predicted(self, thing: int, amounts: FloatArray) -> float:
        """The best fit's prediction of the measured value, for amounts (terms)."""
        return float(amounts @ np.exp(self.logs[thing]))

    def interval(
        self, thing: int, amounts: FloatArray, *, is_measured: bool = False
    ) -> tuple[float, float]:
        """A 90 % interval of that value, for a measured or an unmeasured subject."""
        wider = 1.0 if is_measured else UNLIKE
        best = np.log(np.exp(self.draws[:, thing]) @ amounts)
        drawn = best[:, None] + wider * self.scatter[:, None] * _ERRORS
        low, high = np.exp(np.quantile(drawn, ENDS))
        return float(low), float(high)

    def figures(self, thing: int) -> FloatArray:
        """The best fit's figures (terms), as they stand in a profile."""
        return self._figures(self.logs[thing])

    def drawn_figures(self, thing: int) -> FloatArray:
        """The draws' figures (draws, terms), as they stand in a profile."""
        return self._figures(self.draws[:, thing])

    def _figures(self, logs: FloatArray) -> FloatArray:
        signs = [1.0 if term.per_unit else -1.0 for term in self.prior.terms]
        found: FloatArray = np.exp(signs * logs)
        return found


def generator(fit: str, things: Sequence[str]) -> np.random.Generator:
    """The random numbers of a fit, by what is fitted.

    Things that were fitted apart have errors of their own; those that are fitted again have the
    same.
    """
    return Streams(0).generator(f"calibration.{fit}: {', '.join(things)}")


def posterior(rows: Rows, prior: Prior, rng: np.random.Generator) -> Posterior:
    """The posterior of `prior` given `rows`; without rows it is the prior."""
    target = _Target(rows, prior)
    best = target.best()
    drawn = target.draws(best, rng)
    shape = prior.mean.shape
    scatter = np.exp(drawn[:, -1])
    errors = UNLIKE * scatter[:, None] * rng.standard_t(DEGREES, (len(drawn), shape[0]))
    logs, draws = best[:-1].reshape(shape), drawn[:, :-1].reshape(-1, *shape)
    return Posterior(prior, logs, draws, scatter, errors)


def best_shares(rows: Rows, prior: Prior) -> FloatArray:
    """The share of each term (rows, terms) in the best fit to rows."""
    target = _Target(rows, prior)
    return target.shares(target.best())


class _Target:
    """The logarithm of the posterior density at points (..., things * terms + 1).

    The last coordinate is the logarithm of the error's scale.
    """

    def __init__(self, rows: Rows, prior: Prior) -> None:
        things, terms = prior.mean.shape
        spread_out = np.zeros((len(rows), things, terms))
        spread_out[np.arange(len(rows)), rows.thing] = rows.amounts
        self._shape = things, terms
        self._amounts = spread_out.reshape(len(rows), things * terms)
        self._measured = np.log(rows.measured)
        alike = (rows.thing[:, None] == rows.thing) & (rows.subject[:, None] == rows.subject)
        self._weights = 1.0 / (1.0 + ALIKE * (alike.sum(1) - 1))
        self._mean = prior.mean.ravel()
        self._precision = np.linalg.inv(prior.covariance)
        self._log_scatter, self._spread = float(np.log(prior.scatter)), prior.scatter_spread

    def __call__(self, points: FloatArray) -> FloatArray:
        logs, log_scatter = points[..., :-1], points[..., -1]
        predicted = np.log(np.exp(logs) @ self._amounts.T)
        errors = (self._measured - predicted) / np.exp(log_scatter)[..., None]
        tails = -(DEGREES + 1.0) / 2.0 * np.log1p(errors**2 / DEGREES) - log_scatter[..., None]
        away = logs - self._mean
        density: FloatArray = (
            (self._weights * tails).sum(-1)
            - 0.5 * ((away @ self._precision) * away).sum(-1)
            - 0.5 * ((log_scatter - self._log_scatter) / self._spread) ** 2
        )
        return density

    def best(self) -> FloatArray:
        """The point with the highest density."""
        start = np.append(self._mean, self._log_scatter)
        found = minimize(
            lambda point: -float(self(point)),
            start,
            jac=lambda point: -self._gradient(point),
            method="BFGS",
        )
        point: FloatArray = found.x
        return point

    def shares(self, point: FloatArray) -> FloatArray:
        """The share of each term (rows, terms) in the rows' sums at a point."""
        of_all, *_ = self._at(point)
        things, terms = self._shape
        own: FloatArray = of_all.reshape(-1, things, terms).sum(1)
        return own

    def draws(self, best: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Independent draws (`CHAINS`, coordinates)."""
        size = len(best)
        along = np.linalg.cholesky(np.linalg.inv(self._curvature(best)))
        points = best + WIDE * rng.standard_normal((CHAINS, size)) @ along.T
        density = self(points)
        # Each half of the chains steps along differences of the other half's points, which are as
        # long as the distribution is wide there (ter Braak 2006: 2.38 / sqrt(2 d)); a factor of 1
        # lets it change mode.
        half = CHAINS // 2
        mine, others = slice(None, half), slice(half, None)
        for number in range(2 * STEPS_PER_DIMENSION * size):
            ends = points[others][rng.integers(half, size=(2, half))]
            length = 1.0 if number % 20 < 2 else 2.38 / np.sqrt(2.0 * size)
            asked = points[mine] + length * (ends[0] - ends[1])
            asked += LITTLE * rng.standard_normal(asked.shape) @ along.T
            its = self(asked)
            taken = np.log(rng.random(half)) < its - density[mine]
            points[mine][taken], density[mine][taken] = asked[taken], its[taken]
            mine, others = others, mine
        return points

    def _gradient(self, point: FloatArray) -> FloatArray:
        shares, errors, pull, scatter = self._at(point)
        of_scatter = (pull * errors**2 - self._weights).sum()
        of_scatter -= (point[-1] - self._log_scatter) / self._spread**2
        of_terms = shares.T @ (pull * errors / scatter)
        of_terms -= self._precision @ (point[:-1] - self._mean)
        return np.append(of_terms, of_scatter)

    def _curvature(self, point: FloatArray) -> FloatArray:
        """Minus the second derivative at the best fit, without the terms that make it
        indefinite.
        """
        shares, _, pull, scatter = self._at(point)
        curvature = np.zeros((len(point), len(point)))
        curvature[:-1, :-1] = self._precision + (shares.T * pull / scatter**2) @ shares
        of_t = 2.0 * DEGREES / (DEGREES + 3.0)
        curvature[-1, -1] = self._spread**-2 + of_t * self._weights.sum()
        return curvature

    def _at(self, point: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """Each term's share of each row, the errors, the weight of each error, and the scale."""
        parts = self._amounts * np.exp(point[:-1])
        total = parts.sum(1)
        scatter = float(np.exp(point[-1]))
        errors = (self._measured - np.log(total)) / scatter
        pull = self._weights * (DEGREES + 1.0) / (DEGREES + errors**2)
        return parts / total[:, None], errors, pull, scatter
