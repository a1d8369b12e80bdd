"""FedCure's scheduling rule: owed participation plus speed.

Source: FedCure (arXiv 2511.10227), Eq. 13 and 14, Algorithm 2.

Symbols
    Lambda_m(t)   virtual queue: participation that edge server m is owed        rounds
    delta_m       least share of rounds, kappa D_m / D (`participation` = kappa) 1
    That_m(t)     estimated latency from dispatch to arrival                     s
    I(t)          normaliser: mean over the rounds so far of max_m That_m        s
    beta          weight of speed against participation                          rounds

    pi(t) = argmax over idle m of Lambda_m(t) + beta (1 - That_m(t) / I(t))      Eq. 14

Departures
1. The paper's I, "the average maximum latency", is this running mean; 1 - That / I may be slightly
   negative.
2. Ties go to the least recently dispatched, then to the lowest number (the paper: unspecified).
3. virtual_queue.py has those of Eq. 13. kappa is not given in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.decisions.base import Scheduling
from simfl.decisions.ranking import highest, of_idle
from simfl.decisions.views import EdgeView
from simfl.decisions.virtual_queue import advanced


@dataclass(frozen=True)
class Queues:
    """Lambda(t), the sum of the longest estimates so far in seconds, and over how many rounds."""

    lengths: FloatArray | None = None
    longest_sum_s: float = 0.0
    rounds: int = 0


@dataclass(frozen=True)
class FedCure(Scheduling):
    """The idle edge server with the highest virtual queue plus `beta` times its relative speed."""

    name: ClassVar[str] = "fedcure"

    beta: Annotated[float, ">= 0", "weight of speed against owed participation"] = 0.5
    participation: Annotated[
        float, ">= 0", "<= 1", "least shares of rounds, summed over edge servers (kappa)"
    ] = 0.8

    def initial(self) -> Queues:
        """Nothing is owed."""
        return Queues()

    def owed_share(self, data_share: FloatArray) -> FloatArray:
        """delta."""
        return self.participation * data_share

    def decide(
        self, memory: Queues, view: EdgeView, rng: np.random.Generator
    ) -> tuple[Queues, int, dict[str, Any]]:
        """Eq. 13 for all, Eq. 14 among the idle; an unknown latency counts as I."""
        queues = advanced(memory.lengths, view, self.participation)
        known = view.estimated_latency_s[~np.isnan(view.estimated_latency_s)]
        longest_s = memory.longest_sum_s + float(known.max(initial=0.0))
        memory = Queues(queues, longest_s, memory.rounds + 1)
        normaliser_s = memory.longest_sum_s / memory.rounds
        relative = np.ones(queues.size)
        np.divide(view.estimated_latency_s, normaliser_s, out=relative, where=normaliser_s > 0)
        scores = queues + self.beta * (1.0 - np.nan_to_num(relative, nan=1.0))
        detail = {"scores": of_idle(view, scores), "queues": queues, "normaliser_s": normaliser_s}
        return memory, highest(view, scores), detail
