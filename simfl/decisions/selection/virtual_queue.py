"""RBCS-F: fair selection with short rounds, by virtual queues.

Source: T. Huang et al., arXiv 2011.01783 (IEEE TPDS 2021), known from its published form.

Symbols
    z_n     virtual queue: participation that client n is owed          rounds
    b       least share of the rounds in which each client takes part   1
    T_n     estimated duration of n's round                             s
    V       weight of a second of round time                            rounds/s

    S = argmin over m clients of V max_{n in S} T_n - sum_{n in S} z_n
    z_n <- max(z_n + b - x_n, 0),  x_n = 1 for n in S

The minimum is found exactly: for each possible longest T_n the m longest queues among the clients
no slower.

Departures
1. The paper learns durations with a contextual bandit; here the run's estimator does.
2. The queue of a client that cannot take part now does not change. In the paper (by a public
   implementation of its Algorithm 2) it grows by b, so such a client is chosen once it is back.
3. Ties go to the lowest client number.

Limit: all chosen clients count as served. With protocols that dispatch one of them (asynchronous,
buffered) use `count: 1`.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.decisions.sampling import CountedSelection
from simfl.decisions.views import ClientView

TOLERANCE = 1e-12
"""A gain no larger than this is rounding."""


@dataclass(frozen=True)
class VirtualQueue(CountedSelection):
    """Clients with the most owed participation, balanced against the round's length (RBCS-F)."""

    looks_at: ClassVar[frozenset[str] | None] = frozenset({"estimated_duration_s"})

    participation: Annotated[
        float | None,
        ">= 0",
        "<= 1",
        "least share of rounds for every client; null: half of its equal share",
    ] = None
    latency_weight: Annotated[float, ">= 0", "weight of a second against an owed round"] = 0.1

    def initial(self) -> Mapping[int, float]:
        """Nothing is owed."""
        return {}

    def decide(
        self, memory: Mapping[int, float], view: ClientView, rng: np.random.Generator
    ) -> tuple[Mapping[int, float], IntArray]:
        """The minimising set, and the queues after it."""
        clients, count = view.clients.tolist(), self.wanted(view.clients.size)
        queues = np.array([memory.get(client, 0.0) for client in clients])
        duration_s = np.nan_to_num(view.estimated_duration_s, nan=0.0)
        picked = cheapest(queues, self.latency_weight * duration_s, count)
        owed = self.participation
        if owed is None:
            owed = 0.5 * count / view.clients.size
        served = np.isin(np.arange(len(clients)), picked)
        after = np.maximum(queues + owed - served, 0.0)
        return {**memory, **dict(zip(clients, after.tolist(), strict=True))}, view.clients[picked]


def cheapest(queues: FloatArray, cost: FloatArray, count: int) -> IntArray:
    """The `count` positions that minimise max(cost) - sum(queues), ascending.

    For a given largest cost, only the longest queues among positions of at most that cost can be
    optimal: positions are added in order of cost, and the shortest queue drops out.
    """
    order = np.lexsort((np.arange(cost.size), -queues, cost))
    best, least = order[:count], np.inf
    kept: list[tuple[float, int]] = []
    total = 0.0
    for position in order.tolist():
        heapq.heappush(kept, (float(queues[position]), -position))
        total += float(queues[position])
        if len(kept) > count:
            total -= heapq.heappop(kept)[0]
        if len(kept) == count and cost[position] - total < least - TOLERANCE:
            least = float(cost[position]) - total
            best = np.array([-number for _, number in kept])
    return np.sort(best)
