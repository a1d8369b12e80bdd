"""Least squares with numpy alone: agents whose losses, optima and curvatures are known exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from simfl.common.arrays import FloatArray, IntArray
from simfl.measures.core.agents import Agents


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """Agent i's loss is the mean of (x theta - y)^2 over its rows, times its scale."""

    inputs: Sequence[FloatArray]
    targets: Sequence[FloatArray]
    scales: Sequence[float] | None = None

    @property
    def num_agents(self) -> int:
        return len(self.inputs)

    @property
    def sizes(self) -> list[int]:
        return [len(one) for one in self.targets]

    def _scale(self, agent: int) -> float:
        return 1.0 if self.scales is None else self.scales[agent]

    def per_example(self, theta: FloatArray) -> list[FloatArray]:
        return [
            self._scale(i) * (x @ theta - y) ** 2
            for i, (x, y) in enumerate(zip(self.inputs, self.targets, strict=True))
        ]

    def losses(self, theta: FloatArray) -> FloatArray:
        return np.array([one.mean() for one in self.per_example(theta)])

    def with_gradients(self, theta, counts=None):
        losses, gradients = [], []
        for i, (x, y) in enumerate(zip(self.inputs, self.targets, strict=True)):
            count = np.ones(len(y)) if counts is None else counts[i]
            share = self._scale(i) * count / count.sum()
            losses.append(share @ (x @ theta - y) ** 2)
            gradients.append(2 * (share * (x @ theta - y)) @ x)
        return np.array(losses), np.stack(gradients)

    def weighted(self, theta, shares):
        losses, gradients = self.with_gradients(theta)
        return float(shares @ losses), shares @ gradients

    def resampled(self, rows: Sequence[IntArray]) -> LeastSquares:
        inputs = [x[own] for x, own in zip(self.inputs, rows, strict=True)]
        targets = [y[own] for y, own in zip(self.targets, rows, strict=True)]
        return replace(self, inputs=inputs, targets=targets)

    def curvature(self, theta, agent, direction, iterations=20) -> float:
        x = self.inputs[agent]
        return self._scale(agent) * float(np.linalg.eigvalsh(2 * x.T @ x / len(x)).max())

    def conditioner(self, shares):
        return lambda flat: flat


def points(*targets: float) -> LeastSquares:
    """L_i = (theta - b_i)^2: one row each."""
    return LeastSquares([np.ones((1, 1))] * len(targets), [np.array([b]) for b in targets])


def nash_optimum(agents: Agents, start: FloatArray) -> FloatArray:
    """The maximiser of sum_i w_i log u_i, by scipy, from a start with positive utilities."""

    def negative(theta: FloatArray) -> tuple[float, FloatArray]:
        utilities, slopes = agents.with_slopes(theta)
        if (utilities <= 0).any():
            return np.inf, np.zeros_like(theta)
        pull = agents.weights / utilities
        return -float(agents.weights @ np.log(utilities)), -(pull @ slopes)

    found = minimize(negative, start, jac=True, method="BFGS", options={"gtol": 1e-11})
    return np.asarray(found.x)
