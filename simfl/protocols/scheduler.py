"""Choosing the edge server that the cloud dispatches next."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simfl.decisions.base import Scheduling
from simfl.protocols.clock import Clock
from simfl.protocols.details import known
from simfl.protocols.observations import Observations
from simfl.protocols.servers import Servers
from simfl.streams import Streams


class Scheduler:
    """Drives the scheduling rule, with its memory."""

    def __init__(
        self,
        scheduling: Scheduling,
        servers: Servers,
        observations: Observations,
        streams: Streams,
        clock: Clock,
    ) -> None:
        self._scheduling = scheduling
        self._servers = servers
        self._observations = observations
        self._streams = streams
        self._clock = clock
        self._memory = scheduling.initial()

    def next(self, idle: NDArray[np.bool_], round_number: int) -> int:
        """Which of the `idle` edge servers is dispatched now, and a row that says why.

        Raises ValueError where the rule picks one that is not idle.
        """
        view = self._observations.edges(self._clock.now_s, round_number, idle.copy())
        rng = self._streams.generator("scheduling", 0, round_number)
        self._memory, picked, detail = self._scheduling.decide(self._memory, view, rng)
        edge, candidates = int(picked), np.flatnonzero(idle)
        if edge not in candidates:
            rule = type(self._scheduling).__name__
            raise ValueError(f"{rule} picked edge server {edge}, not idle")
        posterior = self._observations.posterior()
        self._servers.note(
            None,
            "schedule",
            {
                "idle": candidates,
                "estimated_latency_s": known(view.estimated_latency_s),
                **{name: known(column) for name, column in posterior.items()},
                **detail,
            },
            edge=edge,
            round=round_number,
            value=float(edge),
        )
        return edge
