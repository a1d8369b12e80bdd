"""Agents of the core: their utilities under a predictor, with gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from simfl.common.arrays import FloatArray, IntArray


class Losses(Protocol):
    """The agents' losses over flat predictors (d,); `simfl.learning.flat.FlatLosses` is one.

    No loss is negative.
    """

    @property
    def num_agents(self) -> int:
        """The number of agents."""

    @property
    def sizes(self) -> list[int]:
        """Each agent's number of examples."""

    def losses(self, theta: FloatArray) -> FloatArray:
        """Mean losses (agents,)."""

    def per_example(self, theta: FloatArray) -> list[FloatArray]:
        """Per agent the losses of its examples."""

    def with_gradients(
        self, theta: FloatArray, counts: Sequence[IntArray] | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Mean losses (agents,) and gradients (agents, d); `counts`: multiplicities of examples."""

    def weighted(self, theta: FloatArray, shares: FloatArray) -> tuple[float, FloatArray]:
        """sum_i shares_i L_i(theta), for `shares` (agents,), and its gradient (d,)."""

    def resampled(self, rows: Sequence[IntArray]) -> Losses:
        """The losses over these rows (examples,) of each agent's examples, in place of them."""

    def curvature(
        self, theta: FloatArray, agent: int, direction: FloatArray, iterations: int = 20
    ) -> float:
        """|largest eigenvalue| of the Hessian of an agent's loss, searched from `direction`."""

    def conditioner(self, shares: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """A symmetric linear map A; in z, with theta = A z, the mean by `shares` is easy to
        optimise.
        """


@dataclass(frozen=True, eq=False)
class Agents:
    """n agents with losses L_i, offsets M_i (n,) and weights w_i (n,)."""

    model: Losses
    offsets: FloatArray
    weights: FloatArray

    @classmethod
    def of(
        cls,
        model: Losses,
        offset: float | Sequence[float],
        weights: Sequence[float] | None = None,
    ) -> Agents:
        """One offset for all or one each; weights default to 1. Raises ValueError otherwise."""
        count = model.num_agents
        given = 1.0 if weights is None else weights
        pair = []
        for name, values in (("offset", offset), ("weights", given)):
            array = np.asarray(values, dtype=float)
            if array.ndim > 1 or array.size not in (1, count) or not (array > 0).all():
                raise ValueError(f"{name}: found {values}, accepted: {count} positive numbers")
            pair.append(np.broadcast_to(array, (count,)).copy())
        return cls(model, *pair)

    @property
    def count(self) -> int:
        """n."""
        return self.model.num_agents

    @property
    def total_weight(self) -> float:
        """W."""
        return float(self.weights.sum())

    def utilities(self, theta: FloatArray) -> FloatArray:
        """(1) u_i(theta) = M_i - L_i(theta), shape (n,)."""
        return self.offsets - self.model.losses(theta)

    def with_slopes(
        self, theta: FloatArray, counts: Sequence[IntArray] | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Utilities (n,) and their gradients (n, d)."""
        losses, gradients = self.model.with_gradients(theta, counts)
        return self.offsets - losses, -gradients

    def resampled(self, rows: Sequence[IntArray]) -> Agents:
        """The agents with these rows (examples,) of their examples, in place of them."""
        return replace(self, model=self.model.resampled(rows))

    def positive_utilities(self, theta: FloatArray) -> FloatArray:
        """The utilities of a predictor; raises ValueError unless all are positive."""
        return require_positive(self.utilities(theta))


def require_positive(utilities: FloatArray) -> FloatArray:
    """Returns `utilities`; raises ValueError unless all are positive, as the core needs."""
    if not (utilities > 0).all():
        worst = int(np.argmin(utilities))
        raise ValueError(
            f"offset: agent {worst} has the utility {utilities[worst]:g}; the core needs positive"
            " utilities, so an offset above every agent's loss"
        )
    return utilities


def weights_of(utilities: FloatArray, weights: Sequence[float] | None) -> FloatArray:
    """Weights of the agents with these `utilities`; 1 each by default."""
    if weights is None:
        return np.ones(len(utilities))
    given = np.asarray(weights, dtype=float)
    if given.shape != utilities.shape or not (given > 0).all():
        raise ValueError(f"weights: found {weights}, accepted: one positive number per agent")
    return given
