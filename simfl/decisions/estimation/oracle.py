"""Latency estimates from the simulated world itself: a benchmark for estimators that learn.

It estimates the mean latency of a dispatch in the simulated world, over the noise of computations
and messages: the mean of the longest client round among as many clients as took part last, drawn at
random among the edge server's members, at the frequencies that they were last given (before the
first dispatch: as many clients as a round should have, at their highest frequencies). It includes
the edge server's own work, its messages to and from the cloud, contention between clients
dispatched together over a shared channel, and radios that are asleep now. The mean of a maximum has
no closed form; it is taken over rounds that are drawn for this purpose only. For a server that
dispatches clients one by one it is the mean round of one client beside as many others as the server
keeps in flight.

It does not know future latencies: the run's own noise and future decisions are hidden from it, as
from any other estimator. It is the true mean if all clients take part, or clients drawn at random,
and if rounds are plain training of the whole model; the time of a selection's query is not
included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from simfl.common.arrays import FloatArray
from simfl.decisions.base import Estimator


@dataclass(frozen=True)
class Oracle(Estimator):
    """The mean of the simulated world, regardless of observations."""

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
