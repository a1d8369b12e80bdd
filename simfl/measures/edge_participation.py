"""Certificate of the scheduling: edge servers' participation against their owed shares.

Source: FedCure (arXiv 2511.10227), Eq. 5. Over t rounds, m's share is at least delta_m -
Lambda_m(t) / t, so its shortfall from delta_m vanishes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray
from simfl.measures.base import Measure
from simfl.measures.dispatches import columns, data_shares, decisions, owed_shares
from simfl.runs.runfolder import LoadedRun


@dataclass(frozen=True, eq=False)
class Participation:
    """Shares of the scheduled dispatches, without round 0, and owed shares; (edge servers,) each.

    `owed` is 0 if the rule owes nothing; `has_data` is false for an edge server without clients or
    examples.
    """

    shares: FloatArray
    owed: FloatArray
    rounds: int
    has_data: BoolArray

    @property
    def surplus(self) -> FloatArray:
        """Each edge server's share minus delta; negative if it fell short."""
        return self.shares - self.owed

    @property
    def share_min(self) -> float:
        """The least share of an edge server with data."""
        return float(self.shares[self.has_data].min())

    @property
    def surplus_min(self) -> float:
        """The least surplus of an edge server with an owed share, or of any with data if there is
        none.
        """
        meant = self.owed > 0 if self.owed.any() else self.has_data
        return float(self.surplus[meant].min())


def edge_participation(run: LoadedRun, participation: float | None = None) -> Participation | None:
    """The participation in a run, against kappa (None: its rule's own); None without decisions."""
    made = decisions(run)
    if made.empty:
        return None
    edges = columns(made, "estimated_latency_s").shape[1]
    data = data_shares(run, edges)
    owed = owed_shares(run) if participation is None else participation * data
    shares = np.bincount(made["picked"], minlength=edges) / len(made)
    return Participation(shares, owed if owed.size else np.zeros(edges), len(made), data > 0)


@dataclass(frozen=True)
class EdgeParticipation(Measure):
    """Shares of the dispatches per edge server, compared with their owed shares."""

    learned: ClassVar[bool] = False

    participation: Annotated[
        float | None, "> 0", "<= 1", "least shares, summed (kappa); null: the rule's own"
    ] = None

    def compute(self, run: LoadedRun) -> dict[str, float]:
        """decisions, share_min, share_max, and surplus_min over what is owed.

        Over edge servers with data; surplus_min over those with an owed share, if any.
        """
        found = edge_participation(run, self.participation)
        if found is None:
            return {}
        return {
            "decisions": float(found.rounds),
            "share_min": found.share_min,
            "share_max": float(found.shares.max()),
            "surplus_min": found.surplus_min,
        }
