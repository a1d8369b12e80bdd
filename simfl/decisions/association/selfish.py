"""The self-centred preference rule: a client considers its own coalition only.

Source: named in FedCure (arXiv 2511.10227, section "Optimal Design of Preference Rule") as the
"Self-Centered Rule" and not defined there; this is a stand-in. Client n prefers the coalition whose
label distribution, with n in it, is nearest to uniform: the least JS(Q_m, uniform).

Departures from Algorithm 1, beside those in coalition_game.py
1. A client does not return to a coalition that it has left, because there is no potential that
   would make the switches end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simfl.decisions.coalition_game import TOLERANCE, CoalitionGame, Preference, require_labels
from simfl.decisions.coalitions import Coalitions
from simfl.decisions.divergence import js_divergence
from simfl.decisions.views import AssociationView


@dataclass(frozen=True)
class Selfish(CoalitionGame):
    """Each client in turn joins the coalition that it brings nearest to uniform labels."""

    def preference(
        self, view: AssociationView, coalitions: Coalitions, rng: np.random.Generator
    ) -> Preference:
        """The coalition not yet visited with the least divergence from uniform."""
        require_labels(view, "selfish")
        uniform = np.full(view.label_counts.shape[1], 1.0 / view.label_counts.shape[1])
        visited = np.zeros((view.clients.size, coalitions.edges.size), dtype=bool)

        def preferred(client: int) -> int:
            own = int(coalitions.place[client])
            visited[client, own] = True
            distance = js_divergence(coalitions.joined(client), uniform)
            open_to = np.where(visited[client], np.inf, distance)
            best = int(open_to.argmin())
            return best if open_to[best] < distance[own] - TOLERANCE else own

        return preferred
