"""The weight falls once staleness exceeds a limit (FedAsync, arXiv 1903.03934).

The public FLGo code has 1 / (a (staleness - b)) beyond the limit, which jumps there; this is the
paper's form, which does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from simfl.common.arrays import IntArray
from simfl.decisions.base import Staleness


@dataclass(frozen=True)
class Hinge(Staleness):
    """initial up to `limit`, then initial / (slope (staleness - limit) + 1); alpha, b and a."""

    initial: Annotated[float, "> 0", "<= 1", "share of a model that is not late (alpha)"] = 0.6
    limit: Annotated[int, ">= 0", "staleness up to which the share does not fall (b)"] = 6
    slope: Annotated[float, ">= 0", "slope beyond the limit; 0 ignores staleness (a)"] = 10.0

    def share(self, staleness: IntArray | int) -> Any:
        """Mixing share in [0, 1]."""
        beyond = np.maximum(np.asarray(staleness) - self.limit, 0)
        return self.initial / (self.slope * beyond + 1.0)
