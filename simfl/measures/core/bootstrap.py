"""Bootstrap intervals of core stability, because agents hold samples, not distributions.

A model that was trained on the agents' samples suits them better than new ones, so that its margin
on them is too favourable. At its best the margin of all agents together is 0 on the samples, with
any data, and below 0 on all others. The bootstrap repeats this: in each draw, the best predictor
for all agents is trained for the drawn examples, as the model in question was for the samples, and
differs from it as the model in question differs from the best one for the distributions. A
coalition of some agents gains with a predictor far from the model, and that is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.measures.core.agents import Agents

Margin = Callable[..., float]
"""A margin as a function of utilities (n,): first those in question, then those of alternatives."""

MarginOfAgents = Callable[[Agents, FloatArray], float]
"""A margin as a function of agents and their utilities (n,) in question."""

LEVEL = 0.90
"""The level of every interval, as in the paper's checklist ("with probability >= 90 %")."""


@dataclass(frozen=True)
class Bootstrap:
    """Resamples each agent's examples, with replacement and independently (Efron 1979).

    Percentile intervals over `draws`.
    """

    rng: np.random.Generator
    draws: int = 1000

    def margin(
        self,
        agents: Agents,
        predictors: Sequence[FloatArray],
        test: Margin,
    ) -> tuple[float, float]:
        """Interval of the margin `test`, which takes the utilities (n,) under each predictor.

        The predictors are the same in every draw.
        """
        losses = [agents.model.per_example(one) for one in predictors]
        return self.of_losses(losses, agents.offsets, test)

    def of_losses(
        self,
        losses: Sequence[Sequence[FloatArray]],
        offsets: FloatArray,
        test: Margin,
    ) -> tuple[float, float]:
        """The same from losses per predictor, agent and example.

        In a draw in which the first predictor has a utility that is not positive, the margin is
        -inf.
        """
        sizes = [len(one) for one in losses[0]]
        margins = []
        for rows in self.rows(sizes):
            utilities = [
                offsets - [own[row].mean() for own, row in zip(one, rows, strict=True)]
                for one in losses
            ]
            defined = bool((utilities[0] > 0).all())
            margins.append(test(*utilities) if defined else -np.inf)
        return interval(margins)

    def of_agents(
        self, agents: Agents, theta: FloatArray, test: MarginOfAgents
    ) -> tuple[float, float]:
        """Interval of the margin `test` of the predictor `theta`, anew for the agents of each draw.

        In a draw in which `theta` has a utility that is not positive, the margin is -inf.
        """
        margins = []
        for rows in self.rows(agents.model.sizes):
            drawn = agents.resampled(rows)
            current = drawn.utilities(theta)
            margins.append(test(drawn, current) if (current > 0).all() else -np.inf)
        return interval(margins)

    def rows(self, sizes: Sequence[int]) -> Iterator[list[IntArray]]:
        """The example indices of each draw, (examples,) per agent."""
        for _ in range(self.draws):
            yield [self.rng.integers(size, size=size) for size in sizes]

    def counts(self, sizes: Sequence[int]) -> Iterator[list[IntArray]]:
        """The multiplicity of every example in each draw, (examples,) per agent."""
        for rows in self.rows(sizes):
            yield [np.bincount(row, minlength=n) for row, n in zip(rows, sizes, strict=True)]


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The middle LEVEL of `values`, between values that occurred."""
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(np.asarray(values), [tail, 1 - tail], method="nearest")
    return float(low), float(high)


def coalition_margin(agents: Agents, coalition: Sequence[int]) -> Margin:
    """1 - (W_S / W) min_{i in S} u_i(theta') / u_i(theta), for one coalition S."""
    members = list(coalition)
    share = agents.weights[members].sum() / agents.total_weight

    def margin(current: FloatArray, alternative: FloatArray) -> float:
        return 1 - float((share * alternative[members] / current[members]).min())

    return margin
