"""When what a plan foresees comes to pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.accounts import Messages
from simfl.system.turn_plan import TurnPlan

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Course:
    """Turns that begin together, one entry per client.

    `times_s`: begin, download, computation and upload done, whatever would have followed a message
    that failed. `ends_s`: when the client is free again; `arrives_s`: when its upload is there,
    inf where it never is.
    """

    times_s: tuple[FloatArray, FloatArray, FloatArray, FloatArray]
    ends_s: FloatArray
    arrives_s: FloatArray

    @classmethod
    def of(cls, plan: TurnPlan, now_s: float) -> Course:
        """The course of a plan that begins now."""
        downloaded_s = now_s + plan.download_s
        computed_s = downloaded_s + plan.compute_s
        uploaded_s = computed_s + plan.upload_s
        failed = plan.download_failed | plan.upload_failed
        return cls(
            (np.full_like(downloaded_s, now_s), downloaded_s, computed_s, uploaded_s),
            np.where(plan.download_failed, downloaded_s, uploaded_s),
            np.where(failed, np.inf, uploaded_s),
        )

    def send(self, messages: Messages, clients: IntArray, plan: TurnPlan) -> None:
        """The senders count every attempt of their messages."""
        begun_s, downloaded_s, computed_s, uploaded_s = self.times_s
        down = plan.download_attempts * plan.down_bytes
        up = plan.upload_attempts * plan.up_bytes * ~plan.download_failed
        now_s = float(begun_s[0])
        messages.send(clients, begun_s, downloaded_s, down, now_s, uplink=False)
        messages.send(clients, computed_s, uploaded_s, up, now_s, uplink=True)
