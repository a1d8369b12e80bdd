"""The weight falls exponentially with staleness (FedCure, Eq. 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from simfl.common.arrays import IntArray
from simfl.decisions.base import Staleness


@dataclass(frozen=True)
class Exponential(Staleness):
    """xi = initial * base^staleness; the paper's ell and k."""

    initial: Annotated[float, "> 0", "<= 1", "share of a fresh model (ell)"] = 0.2
    base: Annotated[float, "> 0", "<= 1", "factor per version of staleness (k)"] = 0.9

    def share(self, staleness: IntArray | int) -> Any:
        """Eq. 2's mixing weight."""
        return self.initial * self.base ** np.asarray(staleness)
