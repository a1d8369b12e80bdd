"""A way to share of one's own: the medium is the fastest sender's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simfl.plugins import FloatArray, Flows, Sharing


@dataclass(frozen=True)
class FastestFirst(Sharing):
    """One sends at a time: who has the highest rate; of equals, who came first."""

    def rates_bps(self, flows: Flows) -> FloatArray:
        """Asked whenever a transfer begins or ends; columns stand in order of arrival."""
        fastest = np.arange(len(flows)) == flows.rate_bps.argmax()
        return np.where(fastest, flows.rate_bps, 0.0)
