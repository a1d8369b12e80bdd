"""The time and energy that clients spend waiting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from simfl.measures.base import Measure
from simfl.runs.runfolder import LoadedRun


@dataclass(frozen=True)
class Waiting(Measure):
    """The share of clients' time and energy spent idle, including tails of their radios."""

    learned: ClassVar[bool] = False

    def compute(self, run: LoadedRun) -> dict[str, float]:
        """idle_time_share and idle_energy_share, over all clients together.

        The latter is NaN if no client uses any energy.
        """
        clients = run.clients
        horizon_s = float(run.manifest["horizon_s"]) * len(clients)
        waited_s = clients["idle_s"] + clients["tail_s"]
        waited_j = clients["idle_j"] + clients["tail_j"]
        spent_j = float(clients["energy_j"].sum())
        return {
            "idle_time_share": float(waited_s.sum()) / horizon_s,
            "idle_energy_share": float(waited_j.sum()) / spent_j if spent_j else float("nan"),
        }
