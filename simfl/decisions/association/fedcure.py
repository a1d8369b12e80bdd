"""FedCure's preference rule: clients switch if that makes the edge servers more similar.

Source: Y. Chen, J. Lu et al., "FedCure" (arXiv 2511.10227), Algorithm 1 and Eq. 3.

Symbols
    h_n           label counts of client n                            examples, (labels,)
    G_m, Q_m      coalition of edge server m, its label distribution  shares, (labels,)
    mean JS       mean divergence over all C(M, 2) pairs, Eq. 3       nats, at most ln 2
    L             proposals at most (`proposals_per_client` N)

The mean JS times C(M, 2) is an exact potential of the game: a client's gain is everybody's gain, so
every switch lowers it and the result is Nash-stable. Departures: see coalition_game.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simfl.decisions.coalition_game import TOLERANCE, CoalitionGame, Preference, require_labels
from simfl.decisions.coalitions import Coalitions
from simfl.decisions.views import AssociationView


@dataclass(frozen=True)
class FedCure(CoalitionGame):
    """Each client in turn joins the coalition that lowers the mean JS divergence most."""

    name: ClassVar[str] = "fedcure"

    def preference(
        self, view: AssociationView, coalitions: Coalitions, rng: np.random.Generator
    ) -> Preference:
        """Algorithm 1, lines 3 to 9."""
        require_labels(view, "fedcure")

        def preferred(client: int) -> int:
            mean_js = coalitions.outlook(client).mean_js
            best = int(mean_js.argmin())
            own = int(coalitions.place[client])
            return best if mean_js[best] < mean_js[own] - TOLERANCE else own

        return preferred
