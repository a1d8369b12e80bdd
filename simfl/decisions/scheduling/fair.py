"""Owed participation alone (FedCure's baseline "Fair", and "FedFair" on FedCure's association).

Source: FedCure (arXiv 2511.10227), Eq. 14 with beta = 0. With `participation` below 1 many queues
are empty, and the tie rule makes it round robin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.decisions.base import Scheduling
from simfl.decisions.ranking import highest, of_idle
from simfl.decisions.views import EdgeView
from simfl.decisions.virtual_queue import advanced


@dataclass(frozen=True)
class Fair(Scheduling):
    """The idle edge server that is owed most; ties to the least recently dispatched."""

    participation: Annotated[
        float, ">= 0", "<= 1", "least shares of rounds, summed over edge servers (kappa)"
    ] = 0.8

    def owed_share(self, data_share: FloatArray) -> FloatArray:
        """delta."""
        return self.participation * data_share

    def decide(
        self, memory: FloatArray | None, view: EdgeView, rng: np.random.Generator
    ) -> tuple[FloatArray, int, dict[str, Any]]:
        """Eq. 13 for all; the longest queue among the idle."""
        queues = advanced(memory, view, self.participation)
        return queues, highest(view, queues), {"scores": of_idle(view, queues), "queues": queues}
