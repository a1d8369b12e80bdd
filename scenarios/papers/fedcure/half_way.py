"""Partitions on the way from the initial to the final one: Figure 3's intermediate state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from simfl.decisions.association.fedcure import FedCure
from simfl.decisions.coalition_game import Preference
from simfl.decisions.coalitions import Coalitions
from simfl.decisions.views import AssociationView


@dataclass(frozen=True)
class HalfWay(FedCure):
    """FedCure's formation, which clients leave off once the mean JS is low enough."""

    enough: Annotated[float, "> 0", "mean JS divergence, nats, at which nobody moves any more"] = (
        0.35
    )

    def preference(
        self, view: AssociationView, coalitions: Coalitions, rng: np.random.Generator
    ) -> Preference:
        """FedCure's own until then."""
        preferred = super().preference(view, coalitions, rng)

        def until_enough(client: int) -> int:
            if coalitions.mean_js <= self.enough:
                return int(coalitions.place[client])
            return preferred(client)

        return until_enough
