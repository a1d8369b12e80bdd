"""Uploads that arrive after their round has closed."""

from __future__ import annotations

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.eventlog.kinds import KIND_INDEX
from simfl.eventlog.log import EventLog
from simfl.eventlog.rows import make_rows
from simfl.protocols.deadline_policy import DeadlinePolicy
from simfl.protocols.deliveries import Delivered
from simfl.protocols.details import as_json
from simfl.protocols.observations import ClientReports, Observations
from simfl.system.server_id import ServerId


class Late:
    """Tracks late uploads: they are observed when they arrive, and carried over or dropped."""

    def __init__(self, observations: Observations, log: EventLog) -> None:
        self._observations = observations
        self._log = log
        self._carried: dict[ServerId, list[tuple[float, FloatArray, Delivered]]] = {}

    def expect(
        self,
        delivered: Delivered,
        reports: ClientReports,
        closed_s: float,
        round_number: int,
        server: ServerId,
        policy: DeadlinePolicy,
    ) -> None:
        """These clients' uploads are still on their way after the round has closed."""
        self._observations.will_finish(reports, dropped=policy.late == "drop")
        if policy.late == "carry_over":
            one = closed_s, reports.uploaded_s, delivered
            self._carried.setdefault(server, []).append(one)
        count = delivered.clients.size
        self._log.add(
            make_rows(
                count,
                kind=KIND_INDEX["late"],
                actor=delivered.clients,
                start_s=reports.uploaded_s,
                time_s=reports.uploaded_s,
                edge=server.number,
                version=delivered.versions,
                round=round_number,
                value=reports.uploaded_s - closed_s,
                detail=[as_json({"then": policy.late})] * count,
            )
        )

    def forget(self, server: ServerId) -> None:
        """A server has lost its received updates."""
        self._carried.pop(server, None)

    def carried(self, server: ServerId, now_s: float) -> list[Delivered]:
        """Updates for a server that have arrived since the last call.

        Ordered by round, then client, regardless of arrival times.
        """
        arrived, closed, waiting = [], [], []
        for closed_s, uploaded_s, delivered in self._carried.get(server, []):
            there = uploaded_s <= now_s
            if there.any():
                arrived.append(delivered.take(there))
                closed.append(np.full(arrived[-1].clients.size, closed_s))
            if not there.all():
                waiting.append((closed_s, uploaded_s[~there], delivered.take(~there)))
        self._carried[server] = waiting
        if not arrived:
            return []
        together = Delivered.join(arrived)
        return [together.take(np.lexsort((together.clients, np.concatenate(closed))))]
