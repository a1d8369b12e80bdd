"""Latency estimates of one who knows the machines: the yardstick of the estimators that learn.

It estimates the mean, over the noise of computations and messages, of the latency of a dispatch as
the simulated world has it: the mean of the longest turn of so many clients as took part last, drawn
at random among the edge server's members, at the clocks that they were last given; before that, of
all of them at their highest clocks. The edge server's own work and its messages to and from the
cloud are in it. The mean of a maximum has no closed form; it is taken over turns that are drawn for
this purpose alone.

It knows no single latency that is still to come: the run's own noise is as hidden to it as to any
other estimator, and so are decisions not yet taken. It is the true mean where everybody takes part,
or clients drawn at random, and where turns are plain training of the whole model; the time of a
selection's query is not in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from simfl.common.arrays import FloatArray
from simfl.decisions.base import Estimator


@dataclass(frozen=True)
class Oracle(Estimator):
    """What the world expects, whatever was observed."""

    needs_world: ClassVar[bool] = True

    def initial(self) -> tuple[float, ...]:
        """There is nothing to remember."""
        return ()

    def observe(
        self, memory: FloatArray, duration_s: FloatArray, prior_s: FloatArray
    ) -> FloatArray:
        """Nothing is learned."""
        return memory

    def estimate(self, memory: FloatArray, prior_s: FloatArray) -> FloatArray:
        """The expectation."""
        return prior_s
