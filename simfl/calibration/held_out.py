"""Cross-validation of a fit: each model is left out in turn and predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simfl.calibration.machines import TRAINING
from simfl.calibration.posterior import Posterior, posterior
from simfl.calibration.terms import Prior, Rows
from simfl.common.arrays import FloatArray

LEAST_SHARE = 0.05
"""Rows do not determine a term that takes less than this share of each row's seconds."""
MOST = 0.5
"""A share of a training's seconds that its fixed time has where it is told by this alone."""
MOST_SPREAD = 0.5
"""The share of the prior's spread that it may keep where it is told by several rows."""


@dataclass(frozen=True)
class Prediction:
    """A row's measured seconds and their prediction: the best value and a 90 % interval.

    `missing` are the terms of the row that no row behind the prediction determines.
    """

    line: int
    thing: int
    subject: int
    measured: float
    predicted: float
    low: float
    high: float
    missing: Sequence[str]

    @property
    def factor(self) -> float:
        """The factor by which the prediction is off, at least 1."""
        return max(self.predicted / self.measured, self.measured / self.predicted)

    @property
    def is_inside(self) -> bool:
        """Whether the interval contains the measured value."""
        return self.low <= self.measured <= self.high


def leave_one_out(rows: Rows, prior: Prior, rng: np.random.Generator) -> list[Prediction]:
    """Every row, predicted from the rows of all other models; empty for a single model.

    A model is left out on all devices at once, because its rows on another device would reveal
    much.
    """
    subjects = np.unique(rows.subject)
    if len(subjects) < 2:
        return []
    found = []
    for subject in subjects:
        left_out = rows.subject == subject
        found += predictions(
            rows.only(left_out), posterior(rows.only(~left_out), prior, rng), rows.only(~left_out)
        )
    return sorted(found, key=lambda one: one.line)


def predictions(rows: Rows, fit: Posterior, behind: Rows) -> list[Prediction]:
    """Predictions of rows from a fit to the rows `behind`; both use the same subject numbers."""
    measured = set(zip(behind.thing.tolist(), behind.subject.tolist(), strict=True))
    found = []
    for place, line in enumerate(rows.line):
        thing, amounts = int(rows.thing[place]), rows.amounts[place]
        told = told_terms(behind, fit, thing)
        shares = _shares(fit, thing, amounts[None])[0]
        is_measured = (thing, int(rows.subject[place])) in measured
        low, high = fit.interval(thing, amounts, is_measured=is_measured)
        found.append(
            Prediction(
                int(line),
                thing,
                int(rows.subject[place]),
                float(rows.measured[place]),
                fit.predicted(thing, amounts),
                low,
                high,
                [
                    term.name
                    for term, share, its in zip(fit.prior.terms, shares, told, strict=True)
                    if share >= LEAST_SHARE and not its
                ],
            )
        )
    return found


def told_terms(rows: Rows, fit: Posterior, thing: int) -> list[bool]:
    """Whether a thing's own rows determine each term: it has a sufficient share of one of them.

    The fixed time of trainings also must be told apart from their steps: it is most of a training,
    or the rows have narrowed what the prior leaves open. Long trainings of one length tell nothing.
    """
    own = rows.amounts[rows.thing == thing]
    if not len(own):
        return [False] * len(fit.prior.terms)
    shares = _shares(fit, thing, own).max(0)
    spreads = np.sqrt(np.diag(fit.prior.covariance)).reshape(fit.logs.shape)[thing]
    open_ = fit.draws[:, thing].std(0) > MOST_SPREAD * spreads
    fixed = np.array([one is TRAINING.term for one in fit.prior.terms])
    told: list[bool] = ((shares >= LEAST_SHARE) & ~(fixed & open_ & (shares < MOST))).tolist()
    return told


def _shares(fit: Posterior, thing: int, amounts: FloatArray) -> FloatArray:
    """Shares of the terms (rows, terms) in a fit's predictions for these amounts."""
    parts = amounts * np.exp(fit.logs[thing])
    shares: FloatArray = parts / parts.sum(1, keepdims=True)
    return shares
