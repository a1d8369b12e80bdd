"""When what a plan foresees comes to pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.eventlog.accounts import Messages
from simfl.system.presence import Outcome
from simfl.system.turn_plan import TurnPlan


@dataclass(frozen=True, eq=False)
class Course:
    """Turns that begin together, one entry per client.

    `plan`: what happens of them. `times_s`: begin, download, computation and upload done, whatever
    would have followed a message that failed. `ends_s`: when the client is free again; `arrives_s`:
    when its upload is there, and `computed_s` when its computation ends, inf where it never is.
    Clients go away for the first time in between at `away_s` (inf: never).
    """

    plan: TurnPlan
    times_s: tuple[FloatArray, FloatArray, FloatArray, FloatArray]
    ends_s: FloatArray
    arrives_s: FloatArray
    computed_s: FloatArray
    away_s: FloatArray

    @classmethod
    def of(cls, outcome: Outcome, clients: IntArray, now_s: float) -> Course:
        """The course of turns that begin now."""
        plan = outcome.plan
        times_s = plan.times_s(now_s)
        _, downloaded_s, computed_s, uploaded_s = times_s
        whole_s = np.where(plan.download_failed, downloaded_s, uploaded_s)
        failed = plan.download_failed | plan.upload_failed
        pauses_s: dict[int, float] = {}
        for one in outcome.mishaps:
            if one.goes_on:
                pauses_s[one.client] = min(one.time_s, pauses_s.get(one.client, np.inf))
        return cls(
            plan,
            times_s,
            np.where(np.isfinite(outcome.stops_s), outcome.stops_s, whole_s),
            np.where(failed, np.inf, uploaded_s),
            np.where(outcome.computed, computed_s, np.inf),
            np.array([pauses_s.get(client, np.inf) for client in clients.tolist()]),
        )

    def send(self, messages: Messages, clients: IntArray) -> None:
        """The senders count every attempt of their messages."""
        plan = self.plan
        begun_s, downloaded_s, computed_s, uploaded_s = self.times_s
        down = plan.download_attempts * plan.down_bytes
        up = plan.upload_attempts * plan.up_bytes * ~plan.download_failed
        now_s = float(begun_s[0])
        messages.send(clients, begun_s, downloaded_s, down, now_s, uplink=False)
        messages.send(clients, computed_s, uploaded_s, up, now_s, uplink=True)
