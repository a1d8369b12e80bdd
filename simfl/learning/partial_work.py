"""Clients that do only part of their local work in a round: stragglers.

Source: FedProx (Li et al., MLSys 2020, arXiv 1812.06127), section 5.2: 0, 50 or 90 % of a round's
clients train a number of epochs drawn uniformly from 1 to E. FedNova (Wang et al., NeurIPS 2020,
arXiv 2007.07481), section 6, draws every client's epochs uniformly from 2 to 5: `epochs: 5` with
`partial: {least: 0.2}`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.streams import Streams


@dataclass(frozen=True)
class PartialWork:
    """For each of a client's rounds, whether it does part of the work, and which.

    The draws depend on the client and the number of its earlier rounds alone, so that scenarios
    with the same seed have the same stragglers, whatever the algorithm.
    """

    clients: Annotated[float, "> 0", "<= 1", "probability that a client does only part of it"] = 1.0
    least: Annotated[
        float,
        ">= 0",
        "< 1",
        "they do more than this share of it, drawn uniformly up to all of it, rounded up to whole"
        " epochs or steps: of E epochs by default 1 to E",
    ] = 0.0

    def shares(self, streams: Streams, clients: IntArray, rounds: IntArray) -> FloatArray:
        """The share of the local work that each client does, in (0, 1].

        `rounds` (clients,): how many rounds each has had before.
        """
        part = 1.0 - (1.0 - self.least) * streams.uniform("partial.share", clients, rounds)
        straggles = streams.uniform("partial.straggles", clients, rounds) < self.clients
        shares: FloatArray = np.where(straggles, part, 1.0)
        return shares
