"""The Pareto preference rule: a switch may harm no coalition.

Source: named in FedCure (arXiv 2511.10227, section "Optimal Design of Preference Rule") as the
"Pareto Rule" and not defined there; this is a stand-in. A switch is allowed if it raises no
coalition's mean JS divergence to the others and lowers at least one; of a client's allowed switches
the one with the lowest mean JS over all pairs is taken.

Departures: see coalition_game.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simfl.decisions.coalition_game import TOLERANCE, CoalitionGame, Preference, require_labels
from simfl.decisions.coalitions import Coalitions
from simfl.decisions.views import AssociationView


@dataclass(frozen=True)
class Pareto(CoalitionGame):
    """Each client in turn makes the best switch that harms no coalition."""

    def preference(
        self, view: AssociationView, coalitions: Coalitions, rng: np.random.Generator
    ) -> Preference:
        """The Pareto improvement with the lowest mean JS."""
        require_labels(view, "pareto")

        def preferred(client: int) -> int:
            own = int(coalitions.place[client])
            outlook = coalitions.outlook(client)
            change = outlook.to_others - outlook.to_others[own]
            improves = (change <= TOLERANCE).all(axis=1) & (change < -TOLERANCE).any(axis=1)
            if not improves.any():
                return own
            return int(np.where(improves, outlook.mean_js, np.inf).argmin())

        return preferred
