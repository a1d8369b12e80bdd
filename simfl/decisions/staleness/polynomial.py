"""The weight falls polynomially with staleness (FedAsync, arXiv 1903.03934)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from simfl.common.arrays import IntArray
from simfl.decisions.base import Staleness


@dataclass(frozen=True)
class Polynomial(Staleness):
    """initial * (staleness + 1)^-exponent; the paper's alpha and a."""

    initial: Annotated[float, "> 0", "<= 1", "share of a fresh model (alpha)"] = 0.6
    exponent: Annotated[float, ">= 0", "exponent; 0 ignores staleness (a)"] = 0.5

    def share(self, staleness: IntArray | int) -> Any:
        """Mixing share in [0, 1]."""
        return self.initial * (np.asarray(staleness) + 1.0) ** -self.exponent
