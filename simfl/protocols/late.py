"""Uploads that arrive after their round has closed."""

from __future__ import annotations

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
    """Waits for the late: they are observed when they arrive, and carried over or dropped."""

    def __init__(self, observations: Observations, log: EventLog) -> None:
        self._observations = observations
        self._log = log
        self._reports: list[ClientReports] = []
        self._carried: dict[ServerId, list[tuple[FloatArray, Delivered]]] = {}

    def expect(
        self,
        delivered: Delivered,
        reports: ClientReports,
        closed_s: float,
        round_number: int,
        server: ServerId,
        policy: DeadlinePolicy,
    ) -> None:
        """These clients of a server are on their way though the round closed."""
        self._reports.append(reports)
        if policy.late == "carry_over":
            self._carried.setdefault(server, []).append((reports.uploaded_s, delivered))
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

    def observe(self, now_s: float) -> None:
        """The servers see the rounds that have ended by now."""
        waiting = []
        for reports in self._reports:
            there = reports.uploaded_s <= now_s
            if there.any():
                self._observations.finished(reports.take(there))
            if not there.all():
                waiting.append(reports.take(~there))
        self._reports = waiting

    def forget(self, server: ServerId) -> None:
        """A server has lost what it had received."""
        self._carried.pop(server, None)

    def carried(self, server: ServerId, now_s: float) -> list[Delivered]:
        """Updates for a server that have arrived since it last asked."""
        arrived, waiting = [], []
        for uploaded_s, delivered in self._carried.get(server, []):
            there = uploaded_s <= now_s
            if there.any():
                arrived.append(delivered.take(there))
            if not there.all():
                waiting.append((uploaded_s[~there], delivered.take(~there)))
        self._carried[server] = waiting
        return arrived
