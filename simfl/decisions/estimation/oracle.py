"""Latency estimates of one who knows the machines: the yardstick of the estimators that learn.

It estimates the mean, over the noise of computations and messages, of the latency of a dispatch as
the simulated world has it: the mean of the longest client round among so many clients as took part
last, drawn at random among the edge server's members, at the clocks that they were last given;
before that, of as many as a round is to have at their highest clocks. The edge server's own work
and its messages to and from the cloud are in it, and so are rivals that are dispatched together
over a shared channel, and radios that are asleep now. The mean of a maximum has no closed form; it
is taken over rounds that are drawn for this purpose alone. A server that dispatches clients one by
one is told the mean of one of them beside as many others as it keeps under way.

It knows no single latency that is still to come: the run's own noise is as hidden to it as to any
other estimator, and so are decisions not yet taken. It is the true mean where everybody takes part,
or clients drawn at random, and where rounds are plain training of the whole model; the time of a
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
