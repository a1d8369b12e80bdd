"""A staleness rule of one's own: the polynomial one of FedAsync (Xie et al., arXiv 1903.03934)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from simfl.plugins import IntArray, Staleness


@dataclass(frozen=True)
class Polynomial(Staleness):
    """initial * (staleness + 1)^-exponent."""

    initial: Annotated[float, "> 0", "<= 1", "share of a fresh model"] = 0.6
    exponent: Annotated[float, ">= 0", "0 ignores staleness"] = 0.5

    def share(self, staleness: IntArray | int) -> Any:
        """Mixing share in [0, 1]."""
        return self.initial * (np.asarray(staleness) + 1.0) ** -self.exponent
