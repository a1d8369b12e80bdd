"""Reputation-aware hedonic coalition formation (RH): clients join the coalition that pays most.

Source: J. S. Ng et al., IEEE TPDS 2022 (doi 10.1109/TPDS.2021.3139039), known only from its
abstract; FedCure (arXiv 2511.10227, appendix) compares with it. This is a stand-in: clients are
paid for their marginal contribution of data, weighted by the head's reputation, minus the distance:

    u_n(m) = rho_m (ln(1 + D(G_m with n) / D0) - ln(1 + D(G_m without n) / D0)) - c d(n, m) / d0

Symbols
    rho_m      reputation of edge server m's head                    (0, 1]
    D, D0      examples of a coalition; mean examples of a client    examples
    d, d0      distance of client and edge server; its mean          m
    c          `distance_weight`                                     1

Departures
1. Reputations are drawn uniformly between `reputation_min` and 1, once per run.
2. A client does not return to a coalition that it has left (the paper's history set).
3. See coalition_game.py. Labels are ignored, and the mean JS divergence may rise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.decisions.coalition_game import TOLERANCE, CoalitionGame, Preference
from simfl.decisions.coalitions import Coalitions
from simfl.decisions.views import AssociationView


@dataclass(frozen=True)
class ReputationHedonic(CoalitionGame):
    """Each client in turn joins the coalition of highest utility for itself (stand-in for RH)."""

    looks_at_places: ClassVar[bool] = True

    distance_weight: Annotated[float, ">= 0", "utility lost per mean distance (c)"] = 0.01
    reputation_min: Annotated[float, "> 0", "<= 1", "lowest reputation of a head"] = 0.5

    def preference(
        self, view: AssociationView, coalitions: Coalitions, rng: np.random.Generator
    ) -> Preference:
        """The highest utility among the coalitions not yet visited."""
        reputation = rng.uniform(self.reputation_min, 1.0, coalitions.edges.size)
        distance = _distance(view, coalitions)
        examples = view.num_examples / view.num_examples.mean()
        visited = np.zeros(distance.shape, dtype=bool)

        def preferred(client: int) -> int:
            own = int(coalitions.place[client])
            visited[client, own] = True
            without = np.bincount(coalitions.place, weights=examples)
            without[own] -= examples[client]
            contribution = np.log1p(without + examples[client]) - np.log1p(without)
            utility = reputation * contribution - self.distance_weight * distance[client]
            open_to = np.where(visited[client], -np.inf, utility)
            best = int(open_to.argmax())
            return best if open_to[best] > utility[own] + TOLERANCE else own

        return preferred


def _distance(view: AssociationView, coalitions: Coalitions) -> FloatArray:
    """The distance of every client to every head, in units of the mean; shape (clients, M)."""
    heads = view.edge_position_m[coalitions.edges]
    offsets = view.position_m[:, None, :] - heads[None, :, :]
    metres: FloatArray = np.linalg.norm(offsets, axis=-1)
    mean_m = float(metres.mean())
    return metres / mean_m if mean_m > 0 else metres
