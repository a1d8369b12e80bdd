"""Drives the scheduling rule: the edge server that the cloud dispatches next."""

from __future__ import annotations

import json

import numpy as np

from simfl.common.amounts import number
from simfl.common.arrays import BoolArray, FloatArray
from simfl.common.contract import PartMisbehaves, at_work, named
from simfl.common.notices import Notice
from simfl.common.plain import to_json
from simfl.decisions.asked import owed_by
from simfl.decisions.base import Scheduling
from simfl.protocols.clock import Clock
from simfl.protocols.details import known
from simfl.protocols.expectations import attainability
from simfl.protocols.observations import Observations
from simfl.protocols.servers import Servers
from simfl.streams import Streams
from simfl.system.server_id import CLOUD


class Scheduler:
    """Drives the scheduling rule and keeps its memory; `picked` are its decisions so far."""

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
        self.picked: list[int] = []
        self.warnings: list[Notice] = []
        with at_work(scheduling, "initial"):
            self._memory = scheduling.initial()

    @property
    def owed(self) -> FloatArray:
        """The share of its picks that the rule owes each edge server."""
        return owed_by(self._scheduling, self._observations.data_share)

    def check_attainable(self, latency_s: FloatArray, concurrency: int) -> None:
        """Logs whether each edge server can get its owed participation, and warns if not.

        `latency_s` is the expected duration of each one's dispatch; `concurrency` are in flight.
        """
        owed = self.owed
        if owed.any():
            detail, warnings = attainability(owed, latency_s, concurrency)
            self.warnings += warnings
            unattainable = float(len(detail["unattainable"]))
            self._servers.note(CLOUD, "feasibility", detail, value=unattainable)

    def next(self, idle: BoolArray, round_number: int) -> int:
        """Picks one of the `idle` edge servers, and logs the reasons.

        Raises `PartMisbehaves` if the rule picks anything else.
        """
        view = self._observations.edges(self._clock.now_s, round_number, idle.copy())
        rng = self._streams.generator("scheduling", 0, round_number)
        rule, candidates = self._scheduling, np.flatnonzero(idle)
        with at_work(rule, "decide"):
            self._memory, picked, given = rule.decide(self._memory, view, rng)
            detail = json.loads(to_json(dict(given)))
        edge = number(picked, rule, "decide")
        if isinstance(edge, bool) or edge not in candidates:
            raise PartMisbehaves(
                f"{named(rule, 'decide')} picked edge server {edge}, accepted: an idle one,"
                f" {candidates.tolist()}"
            )
        edge = int(edge)
        self.picked.append(edge)
        posterior = self._observations.posterior()
        self._servers.note(
            CLOUD,
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
