"""Coalition formation: clients switch edge servers one by one until none wants to.

Source: FedCure (arXiv 2511.10227), Algorithm 1. The rule decides which switch a client prefers.

Departures
1. A preference is strict (a gain above `TOLERANCE`): under the paper's weak one (its Eq. 4)
   switches of equal worth would continue for ever.
2. A client alone in its coalition stays: an empty coalition has no label distribution.
3. Clients are asked in a new random order in every sweep; the paper does not specify an order.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from simfl.common.arrays import IntArray
from simfl.decisions.base import Association
from simfl.decisions.coalitions import Coalitions
from simfl.decisions.views import AssociationView

TOLERANCE = 1e-12
"""A gain no larger than this is rounding."""

Preference = Callable[[int], int]
"""The coalition that a client prefers; its own if it stays."""


@dataclass(frozen=True)
class CoalitionGame(Association):
    """Base of rules in which clients choose their own coalition."""

    looks_at_places: ClassVar[bool] = False

    proposals_per_client: Annotated[
        int, ">= 1", "maximum of proposed switches, as a multiple of the number of clients (L / N)"
    ] = 100

    @abstractmethod
    def preference(
        self, view: AssociationView, coalitions: Coalitions, rng: np.random.Generator
    ) -> Preference:
        """The client's preference among `coalitions`, which change between calls."""

    def decide(
        self, view: AssociationView, rng: np.random.Generator
    ) -> tuple[IntArray, dict[str, Any]]:
        """Sweeps over the clients until a complete sweep has no switch."""
        coalitions = Coalitions(view.label_counts, view.home_edge)
        preferred = self.preference(view, coalitions, rng)
        limit = self.proposals_per_client * view.clients.size
        proposals, switches, stable = 0, [], False
        while not stable and proposals < limit:
            stable = True
            for client in rng.permutation(view.clients.size).tolist():
                proposals += 1
                if coalitions.sizes[coalitions.place[client]] == 1:
                    continue
                target = preferred(client)
                if target != coalitions.place[client]:
                    switches.append(_switch(coalitions, client, target))
                    stable = False
        return coalitions.edge, {"switches": switches, "proposals": proposals, "stable": stable}


def _switch(coalitions: Coalitions, client: int, target: int) -> dict[str, Any]:
    """Makes a client switch; returns its log entry."""
    source, before = int(coalitions.place[client]), coalitions.mean_js
    coalitions.switch(client, target)
    return {
        "client": client,
        "from": int(coalitions.edges[source]),
        "to": int(coalitions.edges[target]),
        "js_before": before,
        "js_after": coalitions.mean_js,
    }


def require_labels(view: AssociationView, rule: str) -> None:
    """Raises ValueError if clients have no labels to compare."""
    if view.label_counts.shape[1] == 0:
        raise ValueError(f"{rule} compares label counts, which these data do not have")
