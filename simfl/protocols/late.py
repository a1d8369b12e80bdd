"""Uploads that arrive after their round has closed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray
from simfl.eventlog.kinds import KIND_INDEX
from simfl.eventlog.log import EventLog
from simfl.eventlog.rows import make_rows
from simfl.protocols.deadline_policy import DeadlinePolicy
from simfl.protocols.deliveries import Delivered
from simfl.protocols.details import as_json
from simfl.protocols.observations import ClientReports, Observations
from simfl.system.server_id import ServerId


@dataclass(frozen=True)
class _Stragglers:
    """Late updates of a round that closed at `closed_s`, for a server that fails next at `fails_s`.

    All of them arrive before it fails: what would arrive later is not heard.
    """

    closed_s: float
    uploaded_s: FloatArray
    delivered: Delivered
    fails_s: float

    def take(self, which: BoolArray) -> _Stragglers:
        """Some of them."""
        uploaded_s, delivered = self.uploaded_s[which], self.delivered.take(which)
        return replace(self, uploaded_s=uploaded_s, delivered=delivered)


class Late:
    """Tracks late uploads: they are observed when they arrive, and carried over or dropped."""

    def __init__(self, observations: Observations, log: EventLog) -> None:
        self._observations = observations
        self._log = log
        self._carried: dict[ServerId, list[_Stragglers]] = {}

    def expect(
        self,
        delivered: Delivered,
        reports: ClientReports,
        closed_s: float,
        round_number: int,
        server: ServerId,
        fails_s: float,
        policy: DeadlinePolicy,
    ) -> None:
        """These clients' uploads are still on their way after the round has closed.

        `fails_s`: when their server fails next (inf: never).
        """
        self._observations.will_finish(reports, dropped=policy.late == "drop")
        if policy.late == "carry_over":
            one = _Stragglers(closed_s, reports.uploaded_s, delivered, fails_s)
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

    def forget(self, server: ServerId, now_s: float) -> list[Delivered]:
        """Drops updates that a server has lost by failing until now, and returns them."""
        known = self._carried.get(server, [])
        lost = [one for one in known if one.fails_s <= now_s]
        if lost:
            self._carried[server] = [one for one in known if one.fails_s > now_s]
        return [one.delivered for one in lost]

    def carried(self, server: ServerId, now_s: float) -> list[Delivered]:
        """Updates for a server that have arrived since the last call.

        Ordered by round, then client, regardless of arrival times.
        """
        arrived, closed, waiting = [], [], []
        for one in self._carried.get(server, []):
            there = one.uploaded_s <= now_s
            if there.any():
                arrived.append(one.delivered.take(there))
                closed.append(np.full(arrived[-1].clients.size, one.closed_s))
            if not there.all():
                waiting.append(one.take(~there))
        self._carried[server] = waiting
        if not arrived:
            return []
        together = Delivered.join(arrived)
        return [together.take(np.lexsort((together.clients, np.concatenate(closed))))]
